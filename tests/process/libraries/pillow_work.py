"""Pillow: an image that all requests copy, drawing, filters, files."""

import io

from PIL import Image, ImageDraw, ImageFilter

SHARED = Image.new("RGB", (64, 64), (10, 20, 30))


def work(number):
    image = SHARED.copy()
    draw = ImageDraw.Draw(image)
    draw.ellipse((5, 5, 50, 50), fill=(number % 255, 0, 0))
    draw.text((3, 3), str(number))
    image = image.resize((32, 32)).rotate(30).filter(ImageFilter.BLUR).convert("L")
    file = io.BytesIO()
    image.save(file, "PNG")
    file.seek(0)
    with Image.open(file) as back:
        back.load()
        return [list(back.size), sum(back.tobytes()), list(SHARED.getpixel((1, 1)))]
