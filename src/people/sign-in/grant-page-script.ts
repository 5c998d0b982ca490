// The common part of the scripts of both pages on which a person lets a program in, as text like that of the sign-in
// page. `signIn()` and `request` are those of the page.
export const grantScript = `const find = id => document.getElementById(id)
const call = (method, path, body) =>
  fetch(path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })
const say = text => { find('status').textContent = text }
const show = id => {
  for (const section of document.querySelectorAll('section')) section.hidden = section.id !== id
}

async function fail(reply) {
  if (reply.status === 401) return signIn()
  const { title, detail } = await reply.json()
  say(title + '. ' + detail)
}

/** Shows the person, if one is signed in as a member, who can decide. */
async function showPerson() {
  const reply = await call('GET', '/v2/me')
  if (!reply.ok) {
    await fail(reply)
    return false
  }
  const { member, organization } = await reply.json()
  if (!member) {
    show('no-member')
    return false
  }
  find('who').textContent = member.full_name ? member.full_name + ' (' + member.email + ')' : member.email
  find('organization').textContent = organization.display_name
  find('as').hidden = false
  return true
}

function showWorkspaces() {
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

/** Sends the decision once, however often a person clicks. */
async function sendDecision(path, body) {
  for (const button of document.querySelectorAll('#request button')) button.disabled = true
  const reply = await call('POST', path, body)
  for (const button of document.querySelectorAll('#request button')) button.disabled = false
  if (reply.ok) return reply
  await fail(reply)
  return null
}

find('request').addEventListener('change', describeGrant)
`
