"""LTI 1.3 through JupyterHub's authenticator: the values load there, and a launch that a site signed logs in."""

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from places import ROOT

pytest.importorskip("ltiauthenticator", reason="jupyterhub-ltiauthenticator is not installed")
jwt = pytest.importorskip("jwt")
pytest.importorskip("cryptography", reason="signing a launch needs it")

from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: E402
from ltiauthenticator.lti13.auth import LTI13Authenticator  # noqa: E402
from ltiauthenticator.lti13.validator import LTI13LaunchValidator  # noqa: E402
from traitlets.config import Config  # noqa: E402

FOLDER = ROOT / "classroom" / "kubernetes"
CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def config():
    """What the chart gives to JupyterHub: the second file's values over those of the first."""
    held = [yaml.safe_load((FOLDER / name).read_text()) for name in ("values.yaml", "lti.yaml")]
    first, second = (values["hub"]["config"] for values in held)
    return Config({name: {**first.get(name, {}), **second.get(name, {})} for name in {*first, *second}})


@pytest.fixture(scope="module")
def site():
    """The address of a site's public keys."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self):
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            text = json.dumps({"keys": [{**key, "kid": "1", "use": "sig", "alg": "RS256"}]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def launch(login="Ada", **changed):
    """A launch, signed by the site."""
    now = int(time.time())
    token = {
        "iss": "https://LMS.EXAMPLE.EDU", "aud": "CLIENT-ID", "sub": "4711", "nonce": "n", "iat": now, "exp": now + 300,
        f"{CLAIM}version": "1.3.0", f"{CLAIM}message_type": "LtiResourceLinkRequest", f"{CLAIM}deployment_id": "1",
        f"{CLAIM}target_link_uri": "https://class.example.edu/hub/", f"{CLAIM}resource_link": {"id": "1"},
        f"{CLAIM}roles": [], f"{CLAIM}custom": {"login": login}, **changed,
    }  # fmt: skip
    return jwt.encode(token, KEY, algorithm="RS256", headers={"kid": "1"})


def logged_in(token, site):
    """The name under which a launch logs in; None if it may not."""
    authenticator = LTI13Authenticator(config=config())
    validator = LTI13LaunchValidator()
    held = validator.verify_and_decode_jwt(
        token, authenticator.issuer, authenticator.client_id, site, authenticator.jwks_algorithms
    )
    validator.validate_id_token(held)
    validator.validate_azp_claim(held, authenticator.client_id)
    user = asyncio.run(authenticator.get_authenticated_user(None, held))
    return user and user["name"]


def test_every_option_of_the_file_is_one_of_the_authenticator_s():
    known = LTI13Authenticator.class_traits(config=True)
    for section in ("Authenticator", "LTI13Authenticator"):
        assert {*config()[section]} <= {*known}
    assert config().JupyterHub.authenticator_class == f"{LTI13Authenticator.__module__}.{LTI13Authenticator.__name__}"
    assert LTI13Authenticator(config=config()).client_id == {"CLIENT-ID"}


def test_a_launch_from_the_site_logs_in_under_the_login_that_numbers_follow_from(site):
    assert logged_in(launch("Ada"), site) == "ada"


@pytest.mark.parametrize("changed", [{"iss": "https://elsewhere"}, {"aud": "other"}, {"exp": 1}])
def test_a_launch_from_elsewhere_does_not(site, changed):
    with pytest.raises(Exception, match=r"(?i)issuer|audience|expired"):
        logged_in(launch(**changed), site)


def test_a_forged_launch_does_not(site):
    with pytest.raises(Exception, match=r"(?i)signature"):
        logged_in(launch()[:-12] + "AAAAAAAAAAAA", site)


def test_a_name_that_is_none_does_not_log_in(site):
    assert not logged_in(launch("../teacher"), site)
