// The sign-in page. It is the same for everyone, because a browser that comes from another site sends no cookie.
import type { Env, Hono } from 'hono'
import { html } from 'hono/html'
import type { Config } from '../env.ts'
import { renderScriptPage, scriptPageHeaders } from '../kernel/html-page.ts'
import { serveStaticPage } from '../kernel/static-page.ts'
import { pageScript } from './page-script.ts'

const oidcLink = html`<p><a class="button" href="/sign-in/oidc">Sign in with your organization’s account</a></p>`

const createContent = (hasOidc: boolean) => html`<p id="status" role="status"></p>
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
<p><button id="sign-out" type="button">Sign out</button></p>
</section>
<noscript><p>This page needs JavaScript.</p></noscript>`

export function serveSignInPage<E extends Env>(app: Hono<E>, { oidc }: Pick<Config, 'oidc'>): void {
  const createPage = async () =>
    serveStaticPage(
      'text/html; charset=utf-8',
      () => renderScriptPage('Sign in', String(createContent(oidc !== undefined)), '/sign-in/page.js'),
      await scriptPageHeaders(),
    )
  let page: ReturnType<typeof createPage> | undefined
  app.get('/sign-in', async c => {
    page ??= createPage()
    return (await page)(c)
  })
  app.get(
    '/sign-in/page.js',
    serveStaticPage('text/javascript; charset=utf-8', () => pageScript),
  )
}
