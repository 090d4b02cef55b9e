"""certificates.py - an authority, and certificates that it signs, made by the openssl program."""
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Its certificate is in self.path."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        self.path, self.key, self.settings = (folder / f"{name}.{kind}" for kind in ("pem", "key", "conf"))
        signed = folder / f"{name}.signed"
        signed.touch()
        self.settings.write_text(f"[ca]\ndefault_ca=a\n[a]\ndatabase={signed}\nnew_certs_dir={folder}\ndefault_md=sha256\npolicy=p\n"
                                 "unique_subject=no\nrand_serial=yes\n[p]\norganizationName=optional\ncommonName=optional\n")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj",
                f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.key, "-out", self.path)

    def sign(self, name, expired=False, algorithm=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), subject=None):
        """Paths of a certificate for localhost and of its key."""
        request, certificate, key, extensions = (self.folder / f"{name}.{kind}" for kind in ("csr", "pem", "key", "ext"))
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
                              "subjectKeyIdentifier=hash\n") # with all that Python 3.13 asks for
        openssl("req", "-newkey", *algorithm, "-nodes", "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)
        dates = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z") if expired else ("-days", 30)
        openssl("ca", "-batch", "-notext", "-config", self.settings, "-cert", self.path, "-keyfile", self.key,
                "-in", request, "-extfile", extensions, *dates, "-out", certificate)
        return certificate, key
