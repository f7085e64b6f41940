#!/bin/sh
# streaming-form-data 2.1.0: a text after the last boundary (an epilogue) empties the last field of the form, no error.
#
# Seen for a form with a=one and b=two, followed by an epilogue in the same piece of data: a is b'one', b is b''. With
# the epilogue in a piece of its own, or without one, b is b'two': the result hangs on how the network cut the data.
# Expected: b'two' each time. RFC 2046 section 5.1.1 (which RFC 7578 section 4 builds on): the epilogue is part of the
# grammar of multipart bodies, and implementations must ignore it.
. "$(dirname "$(realpath "$0")")/lib"
pypi streaming-form-data==2.1.0
cat >show.py <<'PY'
from streaming_form_data import StreamingFormDataParser
from streaming_form_data.targets import ValueTarget

FORM = (
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\none\r\n'
    b'--x\r\nContent-Disposition: form-data; name="b"\r\n\r\ntwo\r\n'
    b"--x--\r\n"
)


def parse(pieces):
    a, b = ValueTarget(), ValueTarget()
    parser = StreamingFormDataParser({"Content-Type": "multipart/form-data; boundary=x"})
    parser.register("a", a)
    parser.register("b", b)
    for piece in pieces:
        parser.data_received(piece)
    return a.value, b.value


EPILOGUE = b"end of the form\r\n"
print("no epilogue:", *parse([FORM]))
print("epilogue in the same piece:", *parse([FORM + EPILOGUE]))
print("epilogue in its own piece:", *parse([FORM, EPILOGUE]))
PY
verdict "no epilogue: b'one' b'two'
epilogue in the same piece: b'one' b''
epilogue in its own piece: b'one' b'two'" "$(python show.py 2>&1)"
