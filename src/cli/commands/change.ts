// Commands that change a deployment: rollback, interrupt, release, and those of its environment.
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { finish, planAndApply } from '../change.ts'
import { usageError } from '../failure.ts'
import { parseTimeout } from '../follow.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import { confirm, findDeployment, findRevision, type Session } from '../session.ts'

export type ChangeFlags = { detach?: boolean; timeout: string }

export async function rollBack(
  session: Session,
  name: string,
  wanted: string,
  flags: ChangeFlags & { releaseOnNewerCommit?: boolean },
): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const { id: revision_id } = await findRevision(session, deployment, wanted)
  const params = { deployment_id: deployment.id }
  const body = { revision_id, release_on_newer_commit: flags.releaseOnNewerCommit === true }
  const plan = await client.plan('POST /v2/deployments/{deployment_id}/rollback', { params, body, signal })
  const apply = (digest: string) =>
    client.call('POST /v2/deployments/{deployment_id}/rollback', {
      params,
      body,
      headers: { 'Plan-Digest': digest },
      signal,
    })
  const next = `slipway rollback ${name} ${wanted} --yes`
  await planAndApply(session, deployment, { plan, apply }, { ...flags, timeoutMs: parseTimeout(flags.timeout), next })
}

export async function interrupt(session: Session, name: string, wanted: string | undefined): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const revision = await findRevision(session, deployment, wanted)
  const question = `Interrupt revision ${revision.number} of ${name} (${revision.status})?`
  await confirm(session, question, `slipway interrupt ${name} ${revision.number} --yes`)
  const params = { deployment_id: deployment.id, revision_id: revision.id }
  await client.call('POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interruption', { params, signal })
  finish(session, deployment, 'interrupted')
}

export async function releaseHold(session: Session, name: string): Promise<void> {
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  await session.client.call('DELETE /v2/deployments/{deployment_id}/hold', { params, signal: session.signal })
  finish(session, deployment, 'released')
}

export async function listVariables(session: Session, name: string | undefined): Promise<void> {
  const { secrets } = await findDeployment(session, name)
  const names = secrets.map(({ name }) => ({ name }))
  session.out.table(names, { name: ({ name }) => name }, 'No variables. Set one with: slipway env set DEPLOYMENT NAME')
}

/** The value comes from standard input or a hidden prompt: an argument would be in the shell's history. */
export async function setVariable(session: Session, name: string, variable: string, flags: ChangeFlags) {
  if (variable.includes('='))
    throw usageError('Give the name only. The value is read from standard input or a hidden prompt.')
  const value = session.out.isInteractive
    ? await readHidden(`Value of ${variable}: `)
    : (await readStdin()).replace(/\r?\n$/, '')
  await changeVariables(session, name, { [variable]: value }, [], flags)
}

export async function unsetVariables(session: Session, name: string, variables: string[], flags: ChangeFlags) {
  await changeVariables(session, name, {}, variables, flags)
}

/** Adds and replaces. Variables that the file does not name stay. */
export async function importVariables(session: Session, name: string, file: string, flags: ChangeFlags): Promise<void> {
  const text = file === '-' ? await readStdin() : readFileSync(file, 'utf8')
  const values = parseEnv(text) as Record<string, string>
  if (Object.keys(values).length === 0) throw usageError(`${file} has no lines of the form NAME=value.`)
  await changeVariables(session, name, values, [], flags)
}

async function changeVariables(
  session: Session,
  name: string,
  set: Record<string, string>,
  unset: string[],
  flags: ChangeFlags,
): Promise<void> {
  const { client, signal, out } = session
  const { id } = await findDeployment(session, name)
  const params = { deployment_id: id }
  const { reply: deployment, etag } = await client.answer('GET /v2/deployments/{deployment_id}', { params, signal })
  const present = new Set(deployment.secrets.map(({ name }) => name))
  const missing = unset.filter(variable => !present.has(variable))
  if (missing.length > 0) throw usageError(`${name} has no variable ${missing.join(', ')}.`, `slipway env list ${name}`)
  const kept = deployment.secrets.filter(secret => !(secret.name in set) && !unset.includes(secret.name))
  const added = Object.entries(set).map(([name, value]) => ({ name, value }))
  const secrets = [...kept, ...added]
  if (secrets.length === 0)
    throw usageError('The last variable of a deployment cannot be removed here: the API keeps all if none is sent.')
  const patch = { params, body: { secrets }, signal }
  const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', patch)
  for (const { name } of added) out.note(`${present.has(name) ? 'replaces' : 'adds'} ${name}`)
  for (const name of unset) out.note(`removes ${name}`)
  // `If-Match` too: the variables that stay are those that were read.
  const apply = (digest: string) =>
    client.call('PATCH /v2/deployments/{deployment_id}', {
      ...patch,
      headers: { 'Plan-Digest': digest, 'If-Match': etag },
    })
  const next = 'Repeat the command with --yes.'
  await planAndApply(session, deployment, { plan, apply }, { ...flags, timeoutMs: parseTimeout(flags.timeout), next })
}
