// The authentication and authorization of the application: an `Auth` of the SDK, by the handlers that it was given.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

export async function loadAuth({ path, name }, folder) {
  let module
  try {
    module = await import(pathToFileURL(resolve(folder, path)).href)
  } catch (error) {
    throw new Error(`\`auth.path\`: ${path} could not be loaded: ${error.message}`, { cause: error })
  }
  const handlers = (module[name] ?? module.default?.[name])?.['~handlerCache']
  if (!handlers) throw new Error(`\`auth.path\`: the export \`${name}\` of ${path} is no \`Auth\` of the SDK.`)
  if (!handlers.authenticate) throw new Error(`\`auth.path\`: \`${name}\` has no handler for \`authenticate\`.`)
  return handlers
}

export async function authenticate(handlers, { method, url, headers }) {
  const user = await handlers.authenticate(new Request(url, { method, headers }))
  if (user === undefined || user === null) return null
  const known = typeof user === 'string' ? { identity: user } : { ...user }
  if (typeof known.identity !== 'string') throw new Error('`authenticate` returned a user without an `identity`.')
  return { is_authenticated: true, display_name: known.identity, permissions: [], ...known }
}

/** The most specific handler decides. Without any, all is allowed. */
export async function authorize({ callbacks = {} }, { user, resource, action, value }) {
  const event = `${resource}:${action}`
  const key = [event, resource, `*:${action}`, '*'].find(one => callbacks[one])
  const { permissions } = user
  const answer = key && (await callbacks[key]({ event, resource, action, value, user, permissions }))
  return { filters: answer === undefined || answer === true ? null : answer, value }
}
