"""Media types of files by the ending of their names.

Knows the endings that the web is made of. The module `mimetypes` of the standard library knows more of them: it takes
1 MiB of memory, and 40 us for a name. The section [mime-type] of the ini file adds what is missing here.
"""

from __future__ import annotations

from poorhttp.dispatch.faults import TableError, shown
from poorhttp.dispatch.headers import is_token

UNKNOWN = "application/octet-stream"

_TABLE = """
aac audio/aac
apng image/apng
atom application/atom+xml
avi video/x-msvideo
avif image/avif
bin application/octet-stream
bmp image/bmp
br application/x-brotli
bz2 application/x-bzip2
css text/css
csv text/csv
deb application/vnd.debian.binary-package
epub application/epub+zip
flac audio/flac
geojson application/geo+json
gif image/gif
glb model/gltf-binary
gltf model/gltf+json
gpx application/gpx+xml
gz application/gzip
htm text/html
html text/html
ico image/vnd.microsoft.icon
ics text/calendar
jpeg image/jpeg
jpg image/jpeg
js text/javascript
json application/json
jsonld application/ld+json
jxl image/jxl
m4a audio/mp4
m4v video/mp4
map application/json
markdown text/markdown
md text/markdown
mjs text/javascript
mkv video/x-matroska
mov video/quicktime
mp3 audio/mpeg
mp4 video/mp4
mpeg video/mpeg
mpg video/mpeg
oga audio/ogg
ogg audio/ogg
ogv video/ogg
opus audio/ogg
otf font/otf
pdf application/pdf
png image/png
ps application/postscript
rss application/rss+xml
rtf application/rtf
svg image/svg+xml
tar application/x-tar
text text/plain
tif image/tiff
tiff image/tiff
torrent application/x-bittorrent
ttf font/ttf
txt text/plain
vcf text/vcard
vtt text/vtt
wasm application/wasm
wav audio/wav
weba audio/webm
webm video/webm
webmanifest application/manifest+json
webp image/webp
woff font/woff
woff2 font/woff2
xhtml application/xhtml+xml
xml text/xml
xsl text/xsl
xz application/x-xz
yaml application/yaml
yml application/yaml
zip application/zip
zst application/zstd
"""

# Beside text: what somebody may have compressed in advance. All else is compressed by its nature.
_COMPRESSIBLE = frozenset(
    (
        "application/javascript",
        "application/json",
        "application/rtf",
        "application/wasm",
        "application/xml",
        "application/yaml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
    )
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def by_ending(own: Mapping[str, str] | None = None) -> dict[str, tuple[str, bool]]:
    """A dict from ending (`html`) to media type, and whether such a file may be compressed.

    own: pairs of ending and type, which precede. Text is UTF-8 unless its type names another charset. Raises TableError
    for what is no media type.
    """
    types = dict(line.split(" ") for line in _TABLE.strip().split("\n"))
    types.update(map(_checked, (own or {}).items()))
    return {ending.lower().lstrip("."): _completed(kind) for ending, kind in types.items()}


def _completed(kind: str) -> tuple[str, bool]:
    plain = kind.partition(";")[0].strip().lower()
    is_text = plain.startswith("text/")
    full = f"{kind}; charset=utf-8" if is_text and "charset" not in kind.lower() else kind
    return full, is_text or plain in _COMPRESSIBLE or plain.endswith(("+xml", "+json"))


def _checked(pair: tuple[object, object]) -> tuple[str, str]:
    """An ending and a type of the site, which is sent as a field (RFC 9110 section 8.3.1). Raises TableError."""
    ending, kind = pair
    if isinstance(ending, str) and isinstance(kind, str) and kind.isascii() and kind.isprintable():
        group, _, name = kind.partition(";")[0].strip().partition("/")
        if is_token(group) and is_token(name):
            return ending, kind
    raise TableError(f"the media type of {shown(ending)} is {shown(kind)}", "one such as text/html")
