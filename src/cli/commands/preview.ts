// `slipway preview`: a preview of a folder, a ref, a commit or an image, followed to its URL.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { CallOptions, Reply } from '../../client/client.ts'
import { finish } from '../change.ts'
import { findComposeFile } from '../compose/find-compose.ts'
import type { Declaration } from '../declaration.ts'
import { openSource } from '../deploy-plan.ts'
import type { UploadTarget } from '../deploy-source.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import { requireFolder } from '../folder-source.ts'
import { followRevision, parseTimeout } from '../follow.ts'
import { type Deployment, findDeployment, type Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  arguments: '[folder]',
  summary: 'make or update a preview of a deployment, and follow it to its URL',
  description:
    'Deploys a folder, or what an option names, beside the deployment. The branch names the preview: the same ' +
    'branch again updates it. In CI it is the branch of the job. `slipway previews delete` ends it.',
  options: command =>
    withFollow(command)
      .option('--name <name>', 'the deployment. Default: the linked one')
      .option('--branch <name>', 'names the preview. Default: the branch of the folder, or of the CI job')
      .option('--image <uri>', 'deploy this image')
      .option('--ref <ref>', 'deploy this branch or tag of the repository of the deployment')
      .option('--commit <sha>', 'deploy this commit of the repository of the deployment')
      .option(
        '--database <how>',
        'its database: none, empty, copy (of that of the deployment) or copy:NAME (of another one). Default: that of ' +
          'the preview policy',
      )
      .option(
        '--ttl <seconds>',
        'after which it is deleted, unless it is updated. Default: that of the preview policy',
      ),
}

type Flags = FollowFlags & {
  name?: string
  branch?: string
  image?: string
  ref?: string
  commit?: string
  database?: string
  ttl?: string
}
type Preview = Reply<'GET /v2/deployments/{deployment_id}/previews/{number}'>
type NewPreview = CallOptions<'POST /v2/deployments/{deployment_id}/previews'>['body']

const POLL_MS = 1000
const MAX_TTL_SECONDS = 90 * 86_400

export async function run(session: Session, flags: Flags, [folder]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const timeoutMs = parseTimeout(flags.timeout)
  const { image, ref, commit } = flags
  const remote = image ?? ref ?? commit
  const sources = [folder, image, ref ?? commit].filter(one => one !== undefined)
  if (sources.length > 1) throw usageError('Give one source: a folder, --image, --ref or --commit.')
  if (ref !== undefined && commit !== undefined) throw usageError('Give --ref or --commit, not both.')
  const ttl = flags.ttl === undefined ? undefined : parseCount(flags.ttl, '--ttl', MAX_TTL_SECONDS)
  if (remote === undefined) session.folder = requireOneApplication(folder ?? '.')
  const deployment = await findDeployment(session, flags.name)
  const branch = flags.branch ?? ((ref ?? commit) ? undefined : findBranch(folder ?? '.'))
  const body: NewPreview = {
    ...(branch !== undefined && { branch }),
    ...(ttl !== undefined && { ttl }),
    ...(flags.database !== undefined && { database: await describeDatabase(session, flags.database) }),
    ...(await describeSource(session, deployment, flags, folder)),
  }
  const params = { deployment_id: deployment.id }
  const requested = await client.call('POST /v2/deployments/{deployment_id}/previews', { params, body, signal })
  if (flags.detach) {
    out.emit({ type: 'preview', ...requested }, () => requested.id)
    out.note(`Next: slipway previews list ${deployment.name}`)
    return
  }
  const preview = await waitUntilMade(session, deployment, requested, timeoutMs)
  const made = { deployment_id: preview.deployment_id! }
  const child = await client.call('GET /v2/deployments/{deployment_id}', { params: made, signal })
  out.emit({ type: 'preview', ...preview }, () => `Preview ${child.name}`)
  const served = await followRevision(session, child, child.latest_revision_id!, { timeoutMs })
  finish(session, served, 'deployed')
}

/** A person may name the deployment as other commands do. */
function requireOneApplication(folder: string): string {
  if (!existsSync(folder) && /^[\w-]+$/.test(folder))
    throw usageError(`There is no folder ${folder}. --name names a deployment.`, `slipway preview --name ${folder}`)
  const compose = findComposeFile(folder, {})
  if (compose === undefined) return requireFolder(folder)
  throw usageError(
    `${compose} has several deployments, and a preview is of one. Give the folder of its service, and --name.`,
    'slipway preview FOLDER --name NAME',
  )
}

/** An archive is planned with the settings of the deployment, which the preview will have, too. */
async function describeSource(
  session: Session,
  deployment: Deployment,
  { image, ref, commit }: Flags,
  folder: string | undefined,
): Promise<NewPreview> {
  if (ref !== undefined) return { repo_ref: ref }
  if (commit !== undefined) return { repo_commit_sha: commit }
  const source = await openSource(session, folder, { ...(image && { image }) })
  if (source.image !== undefined) return { image_uri: source.image }
  source.files!.showPlan(deployment)
  return { source_tarball_path: await source.files!.upload(uploadTargetOf(deployment)) }
}

function uploadTargetOf({ id, source, source_config, source_revision_config }: Deployment): UploadTarget {
  if (source === 'internal_source') return id
  const { root_directory } = source_config
  const { platform_config_path } = source_revision_config
  return { root_directory, platform_config_path }
}

async function describeDatabase(session: Session, how: string): Promise<NonNullable<NewPreview>['database']> {
  if (how === 'none' || how === 'empty' || how === 'copy') return { mode: how }
  if (!how.startsWith('copy:')) throw usageError('--database is none, empty, copy or copy:NAME.')
  const { id } = await findDeployment(session, how.slice('copy:'.length))
  return { mode: 'copy', from_deployment_id: id }
}

async function waitUntilMade(
  { client, signal }: Session,
  { id: deployment_id, name }: Deployment,
  requested: Preview,
  timeoutMs: number,
): Promise<Preview> {
  const params = { deployment_id, number: requested.id }
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const preview = await client.call('GET /v2/deployments/{deployment_id}/previews/{number}', { params, signal })
    const { state, problem, branch } = preview
    if (state === 'live') return preview
    if (state !== 'pending') {
      const reason = problem ?? (state === 'full' ? 'The deployment has as many previews as its policy allows.' : '')
      const message = `The preview of ${branch} is ${state}. ${reason}`.trim()
      throw new CommandFailure(EXIT.failed, `preview_${state}`, message, `slipway previews list ${name}`)
    }
    if (Date.now() >= deadline) {
      const message = `The preview of ${branch} was not made in time. It goes on.`
      throw new CommandFailure(EXIT.timedOut, 'timed_out', message, `slipway previews list ${name}`)
    }
    await delay(POLL_MS, undefined, { signal })
  }
}

/** A checkout of CI has no branch: its job names it. */
function findBranch(folder: string): string {
  const { GITHUB_HEAD_REF, GITHUB_REF_NAME, CI_COMMIT_REF_NAME } = process.env
  const ofJob = GITHUB_HEAD_REF || GITHUB_REF_NAME || CI_COMMIT_REF_NAME
  if (ofJob) return ofJob
  try {
    const branch = execFileSync('git', ['-C', folder, 'branch', '--show-current'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
    if (branch !== '') return branch
  } catch {
    // Not a repository, or no git.
  }
  throw usageError('This folder is on no branch. Name the preview: --branch NAME.')
}
