#!/usr/bin/env python3
"""Operators who prove who they are by bearer tokens of an OpenID Connect provider."""
import base64
import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from lab_world import TIMEOUT_S, call, cases, environment, eventually, program

ISSUER = "https://login.example.com"
CONFIG = """\
listen: 127.0.0.1:0
state_dir: {directory}/state
tls: {{authority: {pki}/controller/ca.crt, certificate: {pki}/controller/tls.crt, key: {pki}/controller/tls.key}}
tokens: {{issuer: {issuer}, audience: mccs, keys: {directory}/jwks.json, claim: email}}
operators:
  - {{name: admin, role: admin}}
  - {{token: alice@example.com, role: admin}}
  - {{token: bob@example.com, role: viewer}}
"""
TENANT = "apiVersion: mccs/v1\nkind: Tenant\nmetadata: {name: team-a}\nspec: {selector: {uids: [1000]}}\n"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """Signs by the openssl program."""

    def __init__(self, directory):
        self.key = directory / "provider.pem"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True,
                                 capture_output=True, text=True).stdout.strip().removeprefix("Modulus=")
        (directory / "jwks.json").write_text(json.dumps({"keys": [
            {"kty": "RSA", "kid": "one", "n": encoded(bytes.fromhex(modulus)), "e": "AQAB"}]}))

    def token(self, email, lifetime=60):
        claims = {"iss": ISSUER, "aud": ["mccs"], "sub": "7", "email": email, "email_verified": True,
                  "exp": int(time.time()) + lifetime}
        text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, claims))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), check=True,
                                   capture_output=True).stdout
        return f"{text}.{encoded(signature)}"


class Tokens(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.pki = self.directory / "pki"
        made = call(program("mccs-controller"), "init-ca", self.pki)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.provider = Provider(self.directory)
        config = self.directory / "controller.yaml"
        config.write_text(CONFIG.format(directory=self.directory, pki=self.pki, issuer=ISSUER))
        self.authority = self.directory / "authority"
        self.authority.mkdir()
        (self.authority / "ca.crt").write_text((self.pki / "controller/ca.crt").read_text())
        self.log = self.directory / "log"
        with open(self.log, "wb") as log:
            self.controller = subprocess.Popen([program("mccs-controller"), "--config", config], stderr=log,
                                               stdin=subprocess.DEVNULL, env=environment())
        self.addCleanup(self.stop)
        endpoint = self.directory / "state/endpoint"
        self.assertTrue(eventually(lambda: endpoint.exists() or self.controller.poll() is not None))
        self.assertIsNone(self.controller.poll(), self.log.read_text())
        self.endpoint = endpoint.read_text().strip()

    def stop(self):
        self.controller.send_signal(signal.SIGTERM)
        self.controller.wait(TIMEOUT_S)

    def mccsctl(self, *words, token=None, tls=None):
        options = ["--tls", tls or self.authority]
        if token is not None:
            path = self.directory / "token"
            path.write_text(token + "\n")
            options += ["--token", path]
        return call(program("mccsctl"), "--controller", self.endpoint, *options, *words)

    def apply(self, **by):
        tenant = self.directory / "tenant.yaml"
        tenant.write_text(TENANT)
        return self.mccsctl("apply", "-f", tenant, **by)

    def test_a_token_has_the_role_of_its_operator(self):
        applied = self.apply(token=self.provider.token("alice@example.com"))
        self.assertEqual(applied.returncode, 0, applied.stderr)
        audit = self.mccsctl("audit", tls=self.pki / "operators/admin").stdout
        self.assertIn(f"token of alice@example.com by {ISSUER}", audit)
        self.assertNotIn("unverified", audit.lower())
        bob = self.provider.token("bob@example.com")
        self.assertIn("team-a", self.mccsctl("get", "tenants", token=bob).stdout)
        rejected = self.apply(token=bob)
        self.assertEqual(rejected.returncode, 1)
        self.assertIn("operator bob@example.com is viewer", rejected.stderr)

    def test_other_tokens_say_what_is_wrong(self):
        other = Provider(pathlib.Path(tempfile.mkdtemp(dir=self.directory)))
        for token, reason in ((self.provider.token("alice@example.com", lifetime=-3600), "expired"),
                              (self.provider.token("mallory@example.com"), "has no role"),
                              (other.token("alice@example.com"), "no key in"),
                              ("rubbish", "no signed JSON Web Token")):
            rejected = self.mccsctl("get", "hosts", token=token)
            self.assertEqual(rejected.returncode, 1)
            self.assertIn(reason, rejected.stderr)

    def test_neither_certificate_nor_token(self):
        rejected = call(program("mccsctl"), "--controller", self.endpoint, "get", "hosts")
        self.assertEqual(rejected.returncode, 1)
        no_tls = call(program("mccsctl"), "--controller", self.endpoint, "--token", self.pki, "get", "hosts")
        self.assertIn("must not cross the network in plain", no_tls.stderr)


if __name__ == "__main__":
    cases.main()
