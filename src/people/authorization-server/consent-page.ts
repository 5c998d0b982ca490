// The authorization endpoint: a page, which is the same for every request. Only its script reads the query, and only
// the API judges it, so an invalid request leads a browser nowhere.
import type { Env, Hono } from 'hono'
import { BUTTONS, GRANT, PERSON } from '../sign-in/grant-page.ts'
import { serveScriptPage } from '../sign-in/script-page.ts'
import { consentPageScript } from './consent-page-script.ts'

const CONTENT = `<p id="status" role="status"></p>
${PERSON}
<section id="request" hidden>
<p class="warning">Approve only if you have started this yourself just now.
<span id="unproven" hidden>Nothing proves the name of this program.</span>
<span id="loopback" hidden>The answer goes to this machine: any program here can claim to be this one.</span></p>
<dl>
<dt>Program</dt><dd id="name"></dd>
<dt>Published by</dt><dd id="host"></dd>
<dt>Answer goes to</dt><dd id="target"></dd>
</dl>
${GRANT}
<p>It stays connected until you revoke its API key, or it does not come back for 90 days. It never has more permissions
than you, and none once you have left the workspace.</p>
</div>
${BUTTONS}
</section>
<noscript><p>This page needs JavaScript.</p></noscript>`

export function serveConsentPage<E extends Env>(app: Hono<E>): void {
  serveScriptPage(app, '/oauth/authorize', 'Connect a program', CONTENT, consentPageScript)
}
