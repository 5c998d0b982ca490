// The source and the deployment that `deploy` and `plan` name, and the plan between them.
import type { Command } from 'commander'
import type { DeploymentPlan } from './change.ts'
import { type DeploySource, type NewDeployment, planNew, requireSource, type Variable } from './deploy-source.ts'
import { CommandFailure, EXIT, shellWord, usageError } from './failure.ts'
import { openFolder } from './folder-source.ts'
import { requireImageAgents } from './image-agents.ts'
import { openImage, openRepository, openTemplate } from './remote-sources.ts'
import { type Deployment, findByName, type Session } from './session.ts'
import { readLink, writeLink } from './settings.ts'
import { addStoreOptions, readStoreFlags, type StoreFlags } from './store-flags.ts'
import { mergeVariables } from './variables.ts'

export type SourceFlags = StoreFlags & {
  image?: string
  repo?: string
  branch?: string
  template?: string
  name?: string
  root?: string
  dryRun?: boolean
}

export const withSource = (command: Command): Command =>
  addStoreOptions(command)
    .option('--image <uri>', 'deploy this image')
    .option('--repo <repository>', 'deploy this repository of a connected git host, by URL or name')
    .option('--branch <branch>', 'its branch. Default: the one that is deployed, or the default branch')
    .option('--template <id>', 'deploy this template')
    .option('--root <folder>', 'the folder of the application in a source with several, such as apps/web')
    .option('--name <name>', 'the deployment. Default: the linked one, or a name after the source')

/** `isGuessed`: neither the command nor a link names it, but it has the name that the source suggests. */
export type Target = { name: string; deployment?: Deployment; isGuessed?: boolean; lastSha256?: string | undefined }

const PATCH = 'PATCH /v2/deployments/{deployment_id}'

export async function openSource(
  session: Session,
  folder: string | undefined,
  options: SourceFlags,
): Promise<DeploySource> {
  const { image, repo, branch, template, root, dryRun = false } = options
  const given = [folder, image, repo, template].filter(one => one !== undefined)
  if (given.length > 1) throw usageError('Give one source: a folder, --image, --repo or --template.')
  if (root !== undefined && (image ?? template) !== undefined)
    throw usageError('--root names a folder in the source, which an image or a template does not have.')
  if (branch !== undefined && repo === undefined) throw usageError('--branch needs --repo, the repository it is in.')
  if (dryRun && given.length === 1 && folder === undefined)
    throw usageError('--dry-run lists the files of a folder, and this source is not a folder. Use `slipway plan`.')
  if (image !== undefined) return openImage(session, image)
  if (repo !== undefined) return openRepository(session, repo, { branch, root })
  if (template !== undefined) return openTemplate(session, template)
  return openFolder(session, folder ?? '.', { root, listFiles: dryRun })
}

/** The deployment that is named, or linked, or has the name that the source suggests. */
export async function findTarget(
  session: Session,
  source: DeploySource,
  name: string | undefined,
  mayCreate = false,
): Promise<Target> {
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
  if (!found && (mayCreate || out.isInteractive)) return { name: wanted }
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

/** Shows that of a folder. Refuses what cannot be built or started. */
export async function showBuildPlan(session: Session, { files, image }: DeploySource, target: Target) {
  const plan = files?.showPlan(target.deployment)
  await requireImageAgents(session, [{ ...target, plan, image }])
  return plan?.plan
}

/** `secrets`: those of the command, beside what the source has. */
export async function planCreation(
  session: Session,
  source: DeploySource,
  name: string,
  flags: StoreFlags,
  secrets: Variable[] = [],
) {
  const resource_spec = readStoreFlags(flags)
  const planned = await source.planCreation(name, secrets)
  if (!resource_spec) return planned
  const { body } = planned
  return planNew(session, { ...body, source_config: { ...body.source_config, resource_spec } } as NewDeployment)
}

export async function planPatch(
  session: Session,
  source: DeploySource,
  deployment: Deployment,
  flags: StoreFlags,
  variables: Variable[] = [],
) {
  const { client, signal } = session
  const params = { deployment_id: deployment.id }
  const secrets = variables.length > 0 ? { secrets: mergeVariables(deployment, variables) } : {}
  const resource_spec = readStoreFlags(flags, deployment)
  const patch = await source.patch(deployment)
  const resources = resource_spec && { source_config: { ...patch.source_config, resource_spec } }
  const body = { ...patch, ...resources, ...secrets }
  const plan: DeploymentPlan = await client.plan(PATCH, { params, body, signal })
  const apply = async (digest: string): Promise<Deployment> => {
    const changed = await client.call(PATCH, { params, body, headers: { 'Plan-Digest': digest }, signal })
    if (source.files) linkFolder(session, source.files.folder, changed, source.files.sha256)
    return changed
  }
  return { plan, apply }
}

export function linkFolder(
  { client }: Session,
  folder: string,
  { id, name }: Deployment,
  archive_sha256?: string,
): void {
  writeLink(folder, { url: client.url, deployment_id: id, name, archive_sha256 })
}
