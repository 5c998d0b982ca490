// `slipway env`: the variables of a deployment.
import { readFileSync } from 'node:fs'
import { parseEnvFile } from '../../client/env-file.ts'
import { ApiError } from '../../client/errors.ts'
import { planAndApply } from '../change.ts'
import { editText } from '../editor.ts'
import { readTemplate, writeTemplate } from '../env-template.ts'
import { shellWord, usageError } from '../failure.ts'
import { parseTimeout } from '../follow.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import { type Deployment, findDeployment, type Session } from '../session.ts'
import type { ChangeFlags } from './change.ts'

type Variables = Record<string, string>
/** Without one, the deployment that the folder is linked to. */
type Name = string | undefined

export async function listVariables(session: Session, name: Name): Promise<void> {
  const { secrets, secret_references } = await findDeployment(session, name)
  type Listed = { name: string; secret_name?: string; secret_key?: string }
  const listed: Listed[] = [...secrets.map(({ name }) => ({ name })), ...(secret_references ?? [])]
  const columns = {
    name: (one: Listed) => one.name,
    ...(secret_references?.length && {
      from: ({ secret_name, secret_key }: Listed) => secret_name && `cluster secret ${secret_name}, key ${secret_key}`,
    }),
  }
  session.out.table(listed, columns, 'No variables. Set one with: slipway env set NAME VARIABLE')
}

/** The value comes from standard input or a hidden prompt: an argument would be in the shell's history. */
export async function setVariable(session: Session, name: Name, variable: string, flags: ChangeFlags) {
  if (variable.includes('='))
    throw usageError('Give the name only. The value is read from standard input or a hidden prompt.')
  const value = session.out.isInteractive
    ? await readHidden(`Value of ${variable}: `)
    : (await readStdin()).replace(/\r?\n$/, '')
  if (value === '') throw usageError(`The value of ${variable} is empty. To store an empty value, import a .env file.`)
  await changeVariables(
    session,
    ['set', variable],
    await readDeployment(session, name),
    { [variable]: value },
    [],
    flags,
  )
}

export async function unsetVariables(session: Session, name: Name, variables: string[], flags: ChangeFlags) {
  await changeVariables(session, ['unset', ...variables], await readDeployment(session, name), {}, variables, flags)
}

/** Adds and replaces. Variables that the file does not name stay. */
export async function importVariables(session: Session, name: Name, file: string, flags: ChangeFlags): Promise<void> {
  const text = file === '-' ? await readStdin() : readFileSync(file, 'utf8')
  const values = parseEnvFile(text)
  if (Object.keys(values).length === 0) throw usageError(`${file} has no lines of the form NAME=value.`)
  await changeVariables(session, ['import', file], await readDeployment(session, name), values, [], flags)
}

export async function editVariables(session: Session, name: Name, flags: ChangeFlags & { reveal?: boolean }) {
  const { client, out, options, signal } = session
  if (!out.isInteractive && !options.yes)
    throw usageError('Without a terminal, confirm with --yes.', `slipway env edit ${name ?? ''} --yes`)
  // The ETag is that of the masked answer, read before the values.
  const read = await readDeployment(session, name)
  const { id, secrets: masked } = read.deployment
  const secrets = flags.reveal
    ? (
        await client.call('GET /v2/deployments/{deployment_id}', {
          params: { deployment_id: id },
          query: { reveal: true },
          signal,
        })
      ).secrets
    : masked.map(({ name }) => ({ name, value: '' }))
  const template = writeTemplate(read.deployment.name, secrets, flags.reveal === true)
  const edited = await editText('variables.env', template, signal)
  const { set, unset, missing } = readTemplate(template, edited)
  for (const variable of missing) out.note(`${variable} has no line, so it stays. To remove it, write -${variable}=`)
  await changeVariables(session, ['edit'], read, set, unset, flags)
}

type ReadDeployment = { deployment: Deployment; etag: string | undefined }

async function readDeployment(session: Session, name: Name): Promise<ReadDeployment> {
  const { id } = await findDeployment(session, name)
  const call = { params: { deployment_id: id }, signal: session.signal }
  const { reply: deployment, etag } = await session.client.answer('GET /v2/deployments/{deployment_id}', call)
  return { deployment, etag }
}

async function changeVariables(
  session: Session,
  [verb, ...words]: string[],
  { deployment, etag }: ReadDeployment,
  set: Variables,
  unset: string[],
  flags: ChangeFlags,
): Promise<void> {
  const { client, signal } = session
  const { name } = deployment
  const references = deployment.secret_references ?? []
  const isReference = (variable: string) => references.some(one => one.name === variable)
  const isSecret = (variable: string) => deployment.secrets.some(one => one.name === variable)
  const missing = unset.filter(variable => !isSecret(variable) && !isReference(variable))
  if (missing.length > 0) throw usageError(`${name} has no variable ${missing.join(', ')}.`, `slipway env list ${name}`)
  const kept = deployment.secrets.filter(secret => !Object.hasOwn(set, secret.name) && !unset.includes(secret.name))
  const secrets = [...kept, ...Object.entries(set).map(([name, value]) => ({ name, value }))]
  const patch = {
    params: { deployment_id: deployment.id },
    // An empty list would keep all.
    query: deployment.secrets.length > 0 && secrets.length === 0 ? { clear: ['secrets' as const] } : {},
    body: {
      secrets,
      ...(unset.some(isReference) && { secret_references: references.filter(({ name }) => !unset.includes(name)) }),
    },
    signal,
  }
  const plan = await client.plan('PATCH /v2/deployments/{deployment_id}', patch).catch(error => {
    throw nameFaults(error, secrets)
  })
  const changed = new Map(plan.secrets.map(({ name, change }) => [name, change]))
  for (const variable of unset.filter(isReference)) changed.set(variable, 'removed')
  showVariables(session, Object.keys(set), changed)
  // `If-Match` too: the variables that stay are those that were read.
  const apply = (digest: string) =>
    client.call('PATCH /v2/deployments/{deployment_id}', {
      ...patch,
      headers: { 'Plan-Digest': digest, 'If-Match': etag },
    })
  const next = ['slipway env', verb, name, ...words.map(shellWord), '--yes'].join(' ')
  const options = { ...flags, timeoutMs: parseTimeout(flags.timeout), next, isExpected: true }
  await planAndApply(session, deployment, { plan, apply }, options)
}

/** Faults name the variable, whose place in the request the person cannot know. */
function nameFaults(error: unknown, secrets: { name: string }[]): unknown {
  if (!(error instanceof ApiError)) return error
  for (const fault of error.errors) {
    const [, member, index] = fault.loc
    if (member === 'secrets' && typeof index === 'number') fault.loc = [secrets[index]?.name ?? index]
  }
  return error
}

/** For people, the plan lists the variables that change. */
function showVariables({ out }: Session, sent: string[], changed: Map<string, string>): void {
  const namesWith = (change: string) => [...changed].flatMap(([name, one]) => (one === change ? [name] : [])).sort()
  const unchanged = sent.filter(name => !changed.has(name)).sort()
  const [added, replaced, removed] = ['added', 'changed', 'removed'].map(namesWith)
  out.emit({ type: 'variables', added, changed: replaced, removed, unchanged })
  if (out.isMachine) return
  for (const name of unchanged) out.raw(out.paint('dim', `= ${name} unchanged`))
}
