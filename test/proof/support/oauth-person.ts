// A person without a screen, who signs in by a link and approves what a program asks for at /oauth/authorize.
import type { Installation } from './two-hosts.ts'

export type Approval = { access: 'all' | 'read' }

export async function signIn({ url, signInToken }: Installation) {
  const headers = { 'Content-Type': 'application/json', Origin: url, 'Sec-Fetch-Site': 'same-origin' }
  const opened = await fetch(`${url}/sign-in/link`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ token: await signInToken() }),
  })
  if (!opened.ok) throw new Error(`The sign-in answered ${opened.status}: ${await opened.text()}`)
  const cookie = opened.headers
    .getSetCookie()
    .map(one => one.split(';')[0])
    .join('; ')
  const call = async (method: string, path: string, body?: object) => {
    const init = { method, headers: { ...headers, Cookie: cookie }, ...(body && { body: JSON.stringify(body) }) }
    const response = await fetch(url + path, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return text ? JSON.parse(text) : undefined
  }
  return {
    call,
    /** Does what the script of the page does. Returns the address that the browser goes to. */
    async approve(authorizeUrl: string, { access }: Approval = { access: 'all' }): Promise<string> {
      const { origin, pathname, search } = new URL(authorizeUrl)
      const page = await fetch(origin + pathname + search, { headers: { Cookie: cookie } })
      if (!page.ok || origin !== url) throw new Error(`${authorizeUrl} answered ${page.status}`)
      const { request, workspaces } = await call('GET', `/v2/me/authorization-request${search}`)
      const body = { request, workspace_id: workspaces[0].id, access }
      return (await call('POST', '/v2/me/authorizations', body)).redirect_url
    },
  }
}

export type Person = Awaited<ReturnType<typeof signIn>>
