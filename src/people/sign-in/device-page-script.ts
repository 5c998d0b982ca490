// The script of the page on which a person decides about a device.
import { grantScript } from './grant-page-script.ts'

export const devicePageScript = `${grantScript}
const givenCode = () => new URLSearchParams(location.search).get('user_code') ?? ''
let request

function signIn() {
  const next = location.pathname + (givenCode() && '?user_code=' + encodeURIComponent(givenCode()))
  location.replace('/sign-in?next=' + encodeURIComponent(next))
}

async function start() {
  if (!(await showPerson())) return
  find('code').value = givenCode()
  if (givenCode()) await look()
  else show('ask')
}

async function look() {
  say('')
  const reply = await call('GET', '/v2/me/device-requests/' + encodeURIComponent(find('code').value))
  if (!reply.ok) {
    show('ask')
    return fail(reply)
  }
  request = await reply.json()
  find('shown-code').textContent = request.user_code
  find('device').textContent = request.device_name ?? 'not named'
  find('address').textContent = request.client_address ?? 'unknown'
  find('agent').textContent = request.user_agent ?? 'unknown'
  find('time').textContent = new Date(request.created_at).toLocaleString()
  showWorkspaces()
}

async function decide(what, body, outcome) {
  if (!(await sendDecision('/v2/me/device-requests/' + request.user_code + '/' + what, body))) return
  say(outcome)
  show(null)
}

find('code-form').addEventListener('submit', async event => {
  event.preventDefault()
  history.replaceState(null, '', location.pathname + '?user_code=' + encodeURIComponent(find('code').value))
  await look()
})
find('approve').addEventListener('click', () =>
  decide(
    'approval',
    { workspace_id: find('workspace').value, access: chosenAccess() },
    'Approved. Go back to the device: it goes on by itself.',
  ))
find('deny').addEventListener('click', () => decide('denial', undefined, 'Denied. The device gets no key.'))
await start()
`
