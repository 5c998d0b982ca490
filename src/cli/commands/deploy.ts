// `slipway deploy` and `slipway plan`: from a source to a URL.
import { applyAndFollow, type DeploymentPlan, planAndApply, showPlan } from '../change.ts'
import { type DeploySource, requireSource } from '../deploy-source.ts'
import { CommandFailure, EXIT, shellWord, usageError } from '../failure.ts'
import { openFolder } from '../folder-source.ts'
import { parseTimeout } from '../follow.ts'
import { openImage, openRepository, openTemplate } from '../remote-sources.ts'
import { confirm, type Deployment, findByName, type Session } from '../session.ts'
import { readLink, writeLink } from '../settings.ts'

type SourceOptions = { image?: string; repo?: string; branch?: string; template?: string; dryRun?: boolean }
export type DeployOptions = SourceOptions & {
  name?: string
  create?: boolean
  detach?: boolean
  timeout: string
  exitCode?: boolean
}

/** `isGuessed`: it only has the name that the source suggests. */
type Target = { name: string; deployment?: Deployment; isGuessed?: boolean; lastSha256?: string | undefined }

const PATCH = 'PATCH /v2/deployments/{deployment_id}'

export async function deploy(session: Session, folder: string | undefined, options: DeployOptions): Promise<void> {
  const follow = { detach: options.detach === true, timeoutMs: parseTimeout(options.timeout) }
  const source = await openSource(session, folder, options)
  if (options.dryRun) return
  const target = await findTarget(session, source, options)
  const next = `slipway deploy${source.argument} --name ${shellWord(target.name)} --yes`
  if (!target.deployment) return deployNew(session, source, target.name, { ...follow, next: `${next} --create` })
  await confirmTarget(session, source, target, next)
  const planned = await planPatch(session, source, target.deployment)
  await planAndApply(session, target.deployment, planned, { ...follow, next, isExpected: true })
}

/** One question: for a folder, its files are uploaded once the deployment is there. */
async function deployNew(
  session: Session,
  source: DeploySource,
  name: string,
  { next, ...follow }: { detach: boolean; timeoutMs: number; next: string },
): Promise<void> {
  const { client, signal } = session
  const { body, plan } = await source.planCreation(name)
  // Its warning is that there is no archive yet, which this command brings.
  showPlan(session, source.files ? { ...plan, warnings: [] } : plan)
  await confirm(session, `Create ${name} and deploy ${source.label}?`, next, { byDefault: true })
  const headers = { 'Plan-Digest': plan.plan_digest }
  const create = () => client.call('POST /v2/deployments', { body, headers, signal })
  if (!source.files) return applyAndFollow(session, create, follow)
  const deployment = await create()
  linkFolder(session, source.files.folder, deployment)
  const { plan: patch, apply } = await planPatch(session, source, deployment)
  await applyAndFollow(session, () => apply(patch.plan_digest), follow)
}

/** Uploads a folder, because a plan names the archive. An archive that no revision uses is deleted after a day. */
export async function planDeploy(session: Session, folder: string | undefined, options: DeployOptions): Promise<void> {
  const source = await openSource(session, folder, options)
  const { name, deployment } = await findTarget(session, source, { ...options, create: true })
  const { plan } = deployment ? await planPatch(session, source, deployment) : await source.planCreation(name)
  showPlan(session, plan)
  if (options.exitCode && (plan.changes.length > 0 || plan.creates_revision)) process.exitCode = EXIT.hasChanges
}

async function openSource(session: Session, folder: string | undefined, options: SourceOptions): Promise<DeploySource> {
  const { image, repo, branch, template, dryRun = false } = options
  const given = [folder, image, repo, template].filter(one => one !== undefined)
  if (given.length > 1) throw usageError('Give one source: a folder, --image, --repo or --template.')
  if (branch !== undefined && repo === undefined) throw usageError('--branch needs --repo, the repository it is in.')
  if (dryRun && given.length === 1 && folder === undefined)
    throw usageError('--dry-run lists the files of a folder, and this source has none here. Use `slipway plan`.')
  if (image !== undefined) return openImage(session, image)
  if (repo !== undefined) return openRepository(session, repo, branch)
  if (template !== undefined) return openTemplate(session, template)
  return openFolder(session, folder ?? '.', dryRun)
}

/** The deployment that is named, or linked, or has the name that the source suggests. */
async function findTarget(session: Session, source: DeploySource, { name, create }: DeployOptions): Promise<Target> {
  const { client, out } = session
  const stored = readLink(session.folder)
  if (name === undefined && stored?.url === client.url) {
    const deployment = await readLinked(session, stored.deployment_id, stored.name)
    return { name: deployment.name, deployment: requireSource(deployment, source), lastSha256: stored.archive_sha256 }
  }
  if (stored && stored.url !== client.url)
    out.note(`This folder is linked to ${stored.name} at ${stored.url}. This deploy goes to ${client.url}.`)
  const wanted = name ?? source.suggestedName
  const found = await findByName(session, wanted)
  const isGuessed = name === undefined
  if (found && (!isGuessed || out.isInteractive))
    return { name: wanted, deployment: requireSource(found, source), isGuessed }
  if (!found && (create || out.isInteractive)) return { name: wanted }
  const next = `slipway deploy${source.argument} --name ${shellWord(wanted)} ${found ? '' : '--create '}--yes`
  const message = found
    ? `A deployment ${wanted} exists, and this command does not name it. Name it to deploy to it.`
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

async function confirmTarget(session: Session, source: DeploySource, target: Target, next: string): Promise<void> {
  const { name, isGuessed, lastSha256 } = target
  if (isGuessed && source.files)
    await confirm(session, `${name} exists, and may come from another folder. Deploy this folder to it?`, next)
  const isUnchanged = lastSha256 !== undefined && lastSha256 === source.files?.sha256
  if (isUnchanged && session.out.isInteractive)
    await confirm(session, 'The files are the same as in the last deploy. Deploy them again?', next)
}

async function planPatch(session: Session, source: DeploySource, deployment: Deployment) {
  const { client, signal } = session
  const params = { deployment_id: deployment.id }
  const body = await source.patch(deployment)
  const plan: DeploymentPlan = await client.plan(PATCH, { params, body, signal })
  const apply = async (digest: string): Promise<Deployment> => {
    const changed = await client.call(PATCH, { params, body, headers: { 'Plan-Digest': digest }, signal })
    if (source.files) linkFolder(session, source.files.folder, changed, source.files.sha256)
    return changed
  }
  return { plan, apply }
}

function linkFolder({ client }: Session, folder: string, { id, name }: Deployment, archive_sha256?: string): void {
  writeLink(folder, { url: client.url, deployment_id: id, name, archive_sha256 })
}
