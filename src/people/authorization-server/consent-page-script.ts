// The script of the page on which a person decides about a client.
import { grantScript } from '../sign-in/grant-page-script.ts'

export const consentPageScript = `${grantScript}
/** Others are ignored, as OAuth wants it. */
const PARAMETERS = [
  'response_type', 'client_id', 'redirect_uri', 'code_challenge', 'code_challenge_method', 'scope', 'state', 'resource',
]
let request

const signIn = () => location.replace('/sign-in?next=' + encodeURIComponent(location.pathname + location.search))

async function start() {
  if (!(await showPerson())) return
  const given = [...new URLSearchParams(location.search)]
  const query = new URLSearchParams(given.filter(([name, value]) => PARAMETERS.includes(name) && value !== ''))
  const reply = await call('GET', '/v2/me/authorization-request?' + query)
  if (!reply.ok) return fail(reply)
  request = await reply.json()
  const { client, redirect_target, is_loopback } = request
  find('name').textContent = client.name
  find('host').textContent = client.host ?? 'unknown: it registered itself'
  find('target').textContent = is_loopback ? 'this machine (' + redirect_target + ')' : redirect_target
  find('unproven').hidden = client.host !== null
  find('loopback').hidden = !is_loopback
  showWorkspaces()
}

/** The address of an application opens it and leaves this page as it is. Without an address, only the page changes. */
function leave(url, outcome) {
  say(outcome)
  show(null)
  if (url !== null) location.assign(url)
}

find('approve').addEventListener('click', async () => {
  const body = { request: request.request, workspace_id: find('workspace').value, access: chosenAccess() }
  const reply = await sendDecision('/v2/me/authorizations', body)
  if (reply) leave((await reply.json()).redirect_url, 'Approved. Go back to the program.')
})
find('deny').addEventListener('click', () => leave(request.denial_url, 'Denied. The program gets no key.'))
await start()
`
