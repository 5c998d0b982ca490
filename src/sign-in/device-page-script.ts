// The script of the page on which a person decides about a device, as text like that of the sign-in page.
export const devicePageScript = `const find = id => document.getElementById(id)
const call = (method, path, body) =>
  fetch(path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })
const say = text => { find('status').textContent = text }
const show = id => {
  for (const section of document.querySelectorAll('section')) section.hidden = section.id !== id
}
const givenCode = () => new URLSearchParams(location.search).get('user_code') ?? ''
let request

async function fail(reply) {
  if (reply.status === 401) return signIn()
  const { title, detail } = await reply.json()
  say(title + '. ' + detail)
}

function signIn() {
  const next = location.pathname + (givenCode() && '?user_code=' + encodeURIComponent(givenCode()))
  location.replace('/sign-in?next=' + encodeURIComponent(next))
}

async function start() {
  const reply = await call('GET', '/v2/me')
  if (!reply.ok) return fail(reply)
  const { member, organization } = await reply.json()
  if (!member) return show('no-member')
  find('who').textContent = member.full_name ? member.full_name + ' (' + member.email + ')' : member.email
  find('organization').textContent = organization.display_name
  find('as').hidden = false
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
  find('workspace').replaceChildren(...request.workspaces.map(({ id, display_name }) => new Option(display_name, id)))
  const canApprove = request.workspaces.length > 0
  find('grant').hidden = !canApprove
  find('no-workspace').hidden = canApprove
  find('approve').hidden = !canApprove
  describeGrant()
  show('request')
}

const chosenAccess = () => document.querySelector('input[name=access]:checked').value

/** deployments:change-commands is "deployments: change commands". */
function describeGrant() {
  const workspace = request.workspaces.find(({ id }) => id === find('workspace').value)
  const actions = new Map()
  for (const permission of workspace?.[chosenAccess()] ?? []) {
    const [resource, action] = permission.replaceAll('-', ' ').split(':')
    actions.set(resource, [...(actions.get(resource) ?? []), action])
  }
  find('permissions').replaceChildren(...[...actions].map(([resource, names]) => {
    const item = document.createElement('li')
    item.textContent = resource + ': ' + names.join(', ')
    return item
  }))
}

async function decide(what, body, outcome) {
  for (const button of document.querySelectorAll('#request button')) button.disabled = true
  const reply = await call('POST', '/v2/me/device-requests/' + request.user_code + '/' + what, body)
  for (const button of document.querySelectorAll('#request button')) button.disabled = false
  if (!reply.ok) return fail(reply)
  say(outcome)
  show(null)
}

find('code-form').addEventListener('submit', async event => {
  event.preventDefault()
  history.replaceState(null, '', location.pathname + '?user_code=' + encodeURIComponent(find('code').value))
  await look()
})
find('request').addEventListener('change', describeGrant)
find('approve').addEventListener('click', () =>
  decide(
    'approval',
    { workspace_id: find('workspace').value, access: chosenAccess() },
    'Approved. Go back to the device: it goes on by itself.',
  ))
find('deny').addEventListener('click', () => decide('denial', undefined, 'Denied. The device gets no key.'))
await start()
`
