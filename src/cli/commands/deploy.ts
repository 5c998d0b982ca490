// `slipway deploy` and `slipway plan`: from a folder to a URL.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Archive, packFolder } from '../archive.ts'
import { type DeploymentPlan, planAndApply, showPlan } from '../change.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { parseTimeout } from '../follow.ts'
import { formatBytes } from '../output.ts'
import { confirm, type Deployment, findByName, type Session } from '../session.ts'
import { readLink, writeLink } from '../settings.ts'

export type DeployOptions = {
  name?: string
  create?: boolean
  dryRun?: boolean
  detach?: boolean
  timeout: string
  exitCode?: boolean
}

type Target = { name: string; deployment: Deployment | undefined; lastSha256?: string | undefined }

const PATCH = 'PATCH /v2/deployments/{deployment_id}'
const CHANGES_EXIT_CODE = 10

export async function deployFolder(session: Session, given: string, options: DeployOptions): Promise<void> {
  const timeoutMs = parseTimeout(options.timeout)
  const folder = requireFolder(given)
  const archive = await packAndShow(session, folder, options.dryRun === true)
  if (options.dryRun) return
  const target = await findTarget(session, folder, options)
  const deployment = target.deployment ?? (await createDeployment(session, target.name, folder))
  if (target.lastSha256 === archive.sha256 && !session.options.yes && session.out.isInteractive)
    await confirm(session, 'The files are the same as in the last deploy. Deploy them again?', 'slipway deploy --yes')
  const { plan, params, body } = await uploadAndPlan(session, deployment, archive)
  const apply = async (digest: string) => {
    const changed = await session.client.call(PATCH, {
      params,
      body,
      headers: { 'Plan-Digest': digest },
      signal: session.signal,
    })
    link(session, folder, changed, archive.sha256)
    return changed
  }
  // The plan of a new deployment was confirmed before it was created.
  const confirmed = target.deployment ? session : { ...session, options: { ...session.options, yes: true } }
  const next = `slipway deploy ${given} --yes`
  await planAndApply(confirmed, deployment, { plan, apply }, { detach: options.detach === true, timeoutMs, next })
}

/** Uploads the archive, because a plan names it. An archive that no revision uses is deleted after a day. */
export async function planFolder(session: Session, given: string, options: DeployOptions): Promise<void> {
  const folder = requireFolder(given)
  const archive = await packAndShow(session, folder, false)
  const { name, deployment } = await findTarget(session, folder, { ...options, create: true })
  const plan = deployment
    ? (await uploadAndPlan(session, deployment, archive)).plan
    : await planCreation(session, newDeployment(name, folder))
  showPlan(session, plan)
  if (options.exitCode && (plan.changes.length > 0 || plan.creates_revision)) process.exitCode = CHANGES_EXIT_CODE
}

function requireFolder(given: string): string {
  const folder = resolve(given)
  if (!existsSync(folder)) throw usageError(`There is no folder ${folder}.`)
  if (!statSync(folder).isDirectory()) throw usageError(`${folder} is not a folder. Give the folder to deploy.`)
  return folder
}

async function packAndShow({ out }: Session, folder: string, listFiles: boolean): Promise<Archive> {
  const archive = await packFolder(folder)
  const { files, bytes, sha256, unpackedBytes } = archive
  if (files.length === 0) throw usageError(`${folder} has no files to deploy.`)
  const size = { files: files.length, bytes: bytes.length, unpacked_bytes: unpackedBytes, sha256 }
  out.emit({ type: 'archive', ...size, ...(listFiles && { names: files }) })
  if (listFiles && !out.isMachine) for (const file of files) out.text(file)
  out.note(`${files.length} files, ${formatBytes(unpackedBytes)}, packed ${formatBytes(bytes.length)}`)
  return archive
}

/** The deployment that is named, or linked, or has the name of the folder's application. */
async function findTarget(session: Session, folder: string, { name, create }: DeployOptions): Promise<Target> {
  const { client, out } = session
  const stored = readLink(folder)
  const linked = stored?.url === client.url ? stored : undefined
  if (name === undefined && linked) {
    const deployment = await readLinked(session, linked.deployment_id, linked.name)
    return { name: deployment.name, deployment: requireSource(deployment), lastSha256: linked.archive_sha256 }
  }
  const wanted = name ?? suggestName(folder)
  const found = await findByName(session, wanted)
  const isChosen = name !== undefined || out.isInteractive
  if (found && isChosen) return { name: wanted, deployment: requireSource(found) }
  if (!found && (create || out.isInteractive)) return { name: wanted, deployment: undefined }
  const next = `slipway deploy --name ${wanted} ${found ? '' : '--create '}--yes`
  const message = found
    ? `This folder is not linked to a deployment. A deployment ${wanted} exists: name it to deploy to it.`
    : `There is no deployment ${wanted}. Without a terminal, --create creates it.`
  throw usageError(message, next)
}

async function readLinked({ client, signal }: Session, deployment_id: string, name: string): Promise<Deployment> {
  const read = client.call('GET /v2/deployments/{deployment_id}', { params: { deployment_id }, signal })
  return read.catch(error => {
    if (error.code !== 'deployment_not_found') throw error
    const message = `This folder is linked to ${name}, which no longer exists.`
    throw new CommandFailure(EXIT.failed, 'deployment_not_found', message, 'slipway unlink')
  })
}

function requireSource(deployment: Deployment): Deployment {
  if (deployment.source === 'internal_source') return deployment
  throw usageError(
    `${deployment.name} is deployed from ${deployment.source}, not from a folder. Choose another name.`,
    'slipway deploy --name NAME',
  )
}

const MAX_NAME_LENGTH = 63
export function suggestName(folder: string): string {
  const file = join(folder, 'package.json')
  const named = existsSync(file) ? readPackageName(file) : undefined
  const words = (named ?? basename(folder)).toLowerCase().match(/[a-z0-9]+/g) ?? ['app']
  return words.join('-').slice(0, MAX_NAME_LENGTH).replace(/-$/, '')
}

function readPackageName(file: string): string | undefined {
  try {
    const { name } = JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown }
    return typeof name === 'string' && /[a-z0-9]/i.test(name) ? name.replace(/^@[^/]*\//, '') : undefined
  } catch (error) {
    throw usageError(`${file} is not JSON: ${(error as Error).message}.`)
  }
}

const newDeployment = (name: string, folder: string) => ({
  name,
  source: 'internal_source' as const,
  source_config: {},
  source_revision_config: existsSync(join(folder, 'slipway.json')) ? { platform_config_path: 'slipway.json' } : {},
  secrets: [],
})

const planCreation = ({ client, signal }: Session, body: ReturnType<typeof newDeployment>) =>
  client.plan('POST /v2/deployments', { body, signal })

async function createDeployment(session: Session, name: string, folder: string): Promise<Deployment> {
  const { client, signal } = session
  const body = newDeployment(name, folder)
  const plan = await planCreation(session, body)
  showPlan(session, plan)
  await confirm(session, `Create the deployment ${name} and deploy this folder?`, `slipway deploy --name ${name} --yes`)
  const headers = { 'Plan-Digest': plan.plan_digest }
  const deployment = await client.call('POST /v2/deployments', { body, headers, signal })
  link(session, folder, deployment)
  return deployment
}

const link = ({ client }: Session, folder: string, { id, name }: Deployment, archive_sha256?: string) =>
  writeLink(folder, { url: client.url, deployment_id: id, name, archive_sha256 })

async function uploadAndPlan(session: Session, { id }: Deployment, archive: Archive) {
  const { client, out, signal } = session
  const uploaded = await client.upload(id, () => streamWithProgress(session, archive.bytes), { signal })
  out.progress('')
  out.emit({ type: 'upload', size: uploaded.size, sha256: uploaded.sha256 })
  const params = { deployment_id: id }
  const body = { source_revision_config: { source_tarball_path: uploaded.object_path } }
  const plan: DeploymentPlan = await client.plan(PATCH, { params, body, signal })
  return { plan, params, body }
}

const CHUNK_BYTES = 65_536
function streamWithProgress({ out }: Session, bytes: Uint8Array): ReadableStream<Uint8Array> {
  let sent = 0
  return new ReadableStream({
    pull(controller) {
      if (sent >= bytes.length) return controller.close()
      controller.enqueue(bytes.subarray(sent, sent + CHUNK_BYTES))
      sent = Math.min(sent + CHUNK_BYTES, bytes.length)
      out.progress(`Uploading ${Math.floor((100 * sent) / bytes.length)} % of ${formatBytes(bytes.length)}`)
    },
  })
}
