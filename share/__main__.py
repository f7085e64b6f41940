"""Write the files of this folder anew."""

from share.files import FILES, ROOT

for name, text in FILES.items():
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(), encoding="utf-8")
