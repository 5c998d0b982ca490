// The pages to sign in, to let a device in, and to see a protected deployment. They are the same for everyone, because
// a browser that comes from another site sends no cookie.
import type { Env, Hono } from 'hono'
import { html } from 'hono/html'
import type { Config } from '../../env.ts'
import { deploymentPageScript } from './deployment-page-script.ts'
import { devicePageScript } from './device-page-script.ts'
import { BUTTONS, GRANT, PERSON } from './grant-page.ts'
import { pageScript } from './page-script.ts'
import { serveScriptPage } from './script-page.ts'

const oidcLink = html`<p>
<a id="oidc" class="button" href="/sign-in/oidc">Sign in with your organization’s account</a>
</p>`

const createSignInContent = (hasOidc: boolean) => html`<p id="status" role="status"></p>
<section id="ways" hidden>
${hasOidc ? oidcLink : ''}
<form id="key-form">
<label for="key">API key</label>
<input id="key" type="password" autocomplete="off" spellcheck="false" required>
<button>Sign in</button>
</form>
<p>If you have no key, ask an Admin of your organization for a sign-in link.</p>
</section>
<section id="signed-in" hidden>
<p>You are signed in to <b id="organization"></b> as <b id="who"></b>.</p>
<p id="switch" hidden><button id="use-link" type="button">Sign in with the link instead</button></p>
<p><a class="button" href="/ui/">Open the dashboard</a></p>
<p><button id="sign-out" class="second" type="button">Sign out</button></p>
</section>
<noscript><p>This page needs JavaScript.</p></noscript>`

const DEVICE_CONTENT = `<p id="status" role="status"></p>
${PERSON}
<section id="ask" hidden>
<form id="code-form">
<label for="code">The code that the device shows</label>
<input id="code" class="code" autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="20" required>
<p><button>Continue</button></p>
</form>
</section>
<section id="request" hidden>
<p class="warning">Approve only if you have started this yourself just now, and the device shows the code below. If
somebody has sent you the code, deny it.</p>
<p id="shown-code" class="code"></p>
<dl>
<dt>Program</dt><dd>Slipway command line</dd>
<dt>Device name</dt><dd id="device"></dd>
<dt>Address</dt><dd id="address"></dd>
<dt>User agent</dt><dd id="agent"></dd>
<dt>Asked</dt><dd id="time"></dd>
</dl>
${GRANT}
<p>This ends after 90 days. The device never has more permissions than you, and none once you have left the
workspace.</p>
</div>
${BUTTONS}
</section>
<noscript><p>This page needs JavaScript.</p></noscript>`

const DEPLOYMENT_CONTENT = `<p id="progress">One moment. You are being signed in.</p>
<p id="status" role="status"></p>
<section id="refused" hidden>
<p>You are signed in to <b id="organization"></b> as <b id="who"></b>, who may not see <b id="host"></b>.</p>
<p>Ask a member of its workspace for a share link, or to let you in.</p>
<p><a class="button" href="/sign-in">Sign in as somebody else</a></p>
</section>
<noscript><p>This page needs JavaScript.</p></noscript>`

export function serveSignInPages<E extends Env>(app: Hono<E>, { oidc }: Pick<Config, 'oidc'>): void {
  serveScriptPage(app, '/sign-in', 'Sign in', String(createSignInContent(oidc !== undefined)), pageScript)
  serveScriptPage(app, '/sign-in/deployment', 'Protected deployment', DEPLOYMENT_CONTENT, deploymentPageScript)
  serveScriptPage(app, '/device', 'Approve a device', DEVICE_CONTENT, devicePageScript)
}
