"""cryptography: keys that all requests share. Its module in Rust has the stable ABI, by its own count of references."""

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

FERNET = Fernet(Fernet.generate_key())
PRIVATE = ed25519.Ed25519PrivateKey.generate()
CURVE = ec.generate_private_key(ec.SECP256R1())
BY_SHA256 = ec.ECDSA(hashes.SHA256())


def work(number):
    message = f"message {number}".encode()
    PRIVATE.public_key().verify(PRIVATE.sign(message), message)
    CURVE.public_key().verify(CURVE.sign(message, BY_SHA256), message, BY_SHA256)
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = CURVE.public_key().public_bytes(serialization.Encoding.PEM, kind)
    is_same = serialization.load_pem_public_key(pem) == CURVE.public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(message)
    try:
        FERNET.decrypt(b"no token")
    except InvalidToken as error:
        refused = type(error).__name__
    return [FERNET.decrypt(FERNET.encrypt(message)).decode(), digest.finalize().hex(), is_same, refused]
