"""LTI 1.3 through JupyterHub's authenticator: the values load there, and a launch that a site signed logs in."""

import asyncio
import json
import shutil
import threading
import time
import urllib.request
from contextlib import suppress
from functools import cache
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
import yaml
from places import ROOT
from school import classroom

from tcemu.classroom import lti
from tcemu.classroom.settings import load
from tcemu.errors import CourseError

# The authenticator imports JupyterHub: the worker that runs these tests does, and not each that collects them.
pytestmark = [
    pytest.mark.skipif(not find_spec(name), reason=f"{name} is not installed")
    for name in ("ltiauthenticator", "jwt", "cryptography")
]

FOLDER = ROOT / "classroom" / "kubernetes"
CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"


@cache
def key():
    """The site's key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def config():
    """What the chart gives to JupyterHub: the second file's values over those of the first."""
    from traitlets.config import Config

    held = [yaml.safe_load((FOLDER / name).read_text()) for name in ("values.yaml", "lti.yaml")]
    first, second = (values["hub"]["config"] for values in held)
    return Config({name: {**first.get(name, {}), **second.get(name, {})} for name in {*first, *second}})


@pytest.fixture(scope="module")
def site():
    """The address of a site's public keys."""
    from jwt.algorithms import RSAAlgorithm

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self):
            public = json.loads(RSAAlgorithm.to_jwk(key().public_key()))
            text = json.dumps({"keys": [{**public, "kid": "1", "use": "sig", "alg": "RS256"}]}).encode()
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
    import jwt

    now = int(time.time())
    token = {
        "iss": "https://LMS.EXAMPLE.EDU", "aud": "CLIENT-ID", "sub": "4711", "nonce": "n", "iat": now, "exp": now + 300,
        f"{CLAIM}version": "1.3.0", f"{CLAIM}message_type": "LtiResourceLinkRequest", f"{CLAIM}deployment_id": "1",
        f"{CLAIM}target_link_uri": "https://class.example.edu/hub/", f"{CLAIM}resource_link": {"id": "1"},
        f"{CLAIM}roles": [], f"{CLAIM}custom": {"login": login}, **changed,
    }  # fmt: skip
    return jwt.encode(token, key(), algorithm="RS256", headers={"kid": "1"})


def logged_in(token, site):
    """The name under which a launch logs in; None if it may not."""
    from ltiauthenticator.lti13.auth import LTI13Authenticator
    from ltiauthenticator.lti13.validator import LTI13LaunchValidator

    authenticator = LTI13Authenticator(config=config())
    validator = LTI13LaunchValidator()
    held = validator.verify_and_decode_jwt(
        token, authenticator.issuer, authenticator.client_id, site, authenticator.jwks_algorithms
    )
    validator.validate_id_token(held)
    validator.validate_azp_claim(held, authenticator.client_id)
    user = asyncio.run(authenticator.get_authenticated_user(None, held))
    return user and user["name"]


@pytest.mark.slow
def test_every_option_of_the_file_is_one_of_the_authenticator_s():
    from ltiauthenticator.lti13.auth import LTI13Authenticator

    known = LTI13Authenticator.class_traits(config=True)
    for section in ("Authenticator", "LTI13Authenticator"):
        assert {*config()[section]} <= {*known}
    assert config().JupyterHub.authenticator_class == f"{LTI13Authenticator.__module__}.{LTI13Authenticator.__name__}"
    assert LTI13Authenticator(config=config()).client_id == {"CLIENT-ID"}


@pytest.mark.slow
def test_a_launch_from_the_site_logs_in_under_the_login_that_numbers_follow_from(site):
    assert logged_in(launch("Ada"), site) == "ada"


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"iss": "https://elsewhere"}, {"aud": "other"}, {"exp": 1}])
def test_a_launch_from_elsewhere_does_not(site, changed):
    with pytest.raises(Exception, match=r"(?i)issuer|audience|expired"):
        logged_in(launch(**changed), site)


@pytest.mark.slow
def test_a_forged_launch_does_not(site):
    with pytest.raises(Exception, match=r"(?i)signature"):
        logged_in(launch()[:-12] + "AAAAAAAAAAAA", site)


@pytest.mark.slow
def test_a_name_that_is_none_does_not_log_in(site):
    assert not logged_in(launch("../teacher"), site)


# ---------------------------------------------------------------------------------------------- on one machine

SITE = {"issuer": "https://LMS.EXAMPLE.EDU", "client_id": "CLIENT-ID", "teacher": "ann"}


def described(folder, **changed):
    """The file for --lti."""
    held = {**SITE, "authorize_url": "https://lms/auth", "jwks_endpoint": "https://lms/certs", **changed}
    path = folder / "lti.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in held.items() if value is not None))
    return path


@pytest.mark.parametrize(("changed", "says"), [
    ({"issuer": None}, "must have a string for each of issuer, client_id, authorize_url, jwks_endpoint and teacher"),
    ({"secret": "x"}, "and nothing else"),
    ({"client_id": 7}, "must have a string for each"),
    ({"jwks_endpoint": "lms/certs"}, "jwks_endpoint must be an address that begins with https://; got 'lms/certs'"),
    ({"teacher": "Ann Smith"}, "teacher must be a login name in small letters, as the site sends it"),
])  # fmt: skip
def test_a_site_that_is_not_described(tmp_path, changed, says):
    with pytest.raises(CourseError, match=says):
        lti.read(described(tmp_path, **changed))


class Browser:
    """Somebody's browser, which keeps cookies and stops where the hub sends it to the site."""

    def __init__(self, hub):
        class Here(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, request, fp, code, msg, headers, to):
                local = urlparse(to).netloc == urlparse(hub).netloc
                return super().redirect_request(request, fp, code, msg, headers, to) if local else None

        self.hub = hub
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()), Here).open

    def ask(self, path, **form):
        """The code, the final address and the text of a page; a form is posted."""
        data = urlencode(form).encode() if form else None
        try:
            with self._open(f"{self.hub}{path}", data, timeout=120) as page:
                return page.status, page.url, page.read().decode()
        except HTTPError as error:
            return error.code, error.headers.get("Location", ""), error.read().decode()

    def begins(self, login):
        """The site opens the tool; returns what the hub asks the site for then."""
        to = f"{self.hub}/hub"
        begin = {"iss": SITE["issuer"], "client_id": "CLIENT-ID", "login_hint": login, "target_link_uri": to}
        code, to, _ = self.ask(f"/hub/lti13/oauth_login?{urlencode(begin)}")
        assert code == 302, to
        assert to.startswith("https://lms/auth?")
        return {key: value[0] for key, value in parse_qs(urlparse(to).query).items()}

    def launches(self, login, **changed):
        """The whole way from the site into the hub."""
        asked = self.begins(login)
        token = launch(login, **{"nonce": asked["nonce"], **changed})
        return self.ask("/hub/lti13/oauth_callback", state=asked["state"], id_token=token)


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("jupyterhub_traefik_proxy") or not shutil.which("bwrap"), reason="needs a hub")
def test_learners_and_the_teacher_come_from_a_site_to_a_class_on_one_machine(tmp_path, site):
    """A stand-in for the site signs what Canvas and Moodle sign; the hub is the real one."""
    (tmp_path / "names.txt").write_text("ada\nbob\n")
    options = [f"--lti={described(tmp_path, jwks_endpoint=site)}", f"--learners={tmp_path / 'names.txt'}"]
    with classroom(tmp_path / "class", *options) as school:
        assert (load(school.folder).teacher, load(school.folder).lti["jwks_endpoint"]) == ("ann", site)
        ann, ada, eve = (Browser(school.url) for _ in range(3))
        assert ann.launches("ann")[0] == 200
        assert ann.ask("/services/classroom/board")[0] == 200
        with suppress(TimeoutError):  # her server starts meanwhile
            ada.launches("Ada")
        code, _, page = ada.ask("/services/classroom/")
        assert (code, "ada" in page) == (200, True)
        assert ada.ask("/services/classroom/board")[0] == 403
        assert eve.launches("eve")[0] == 403, "she is not on the list"
        assert eve.launches("ada", nonce="another")[0] == 400
        assert eve.launches("ada", iss="https://elsewhere")[0] == 400
        stolen = ada.begins("ada")
        token = launch("ada", nonce=stolen["nonce"])
        assert eve.ask("/hub/lti13/oauth_callback", state=stolen["state"], id_token=token)[0] in (400, 403)
        assert eve.ask("/services/classroom/")[0] == 400, "she has to come from the site"
