// Deploys the services of a compose file as one group: translated, shown and planned before anything is uploaded.
import { dirname, resolve } from 'node:path'
import { applyPlan } from '../../client/apply/apply.ts'
import { planApply } from '../../client/apply/plan.ts'
import type { ApplyPlan, Deployment, Step } from '../../client/apply/planner.ts'
import { findWorkspace } from '../../client/export.ts'
import { applyAndFollow, finish } from '../change.ts'
import { describeFailure, refuseDocuments, showPlan } from '../document-plan.ts'
import { EXIT, shellWord, usageError } from '../failure.ts'
import { uploadArchive } from '../folder-source.ts'
import { requireImageAgents } from '../image-agents.ts'
import { confirm, findByName, type Session } from '../session.ts'
import { type PackedFolder, packService } from './pack-service.ts'
import { readCompose } from './read-compose.ts'
import { bringImage, type ImageCopy, openImage } from './service-image.ts'
import type { Planned } from './translate.ts'

type GroupFlags = { name?: string | undefined }
type DeployFlags = GroupFlags & {
  create?: boolean
  dryRun?: boolean | undefined
  detach: boolean
  timeoutMs: number
}
type Service = Planned & {
  packed: PackedFolder | null
  /** Set by prepareServices(). */
  stored?: Deployment | undefined
  copy?: ImageCopy | null
}
type Group = { project: string; services: Service[] }

export async function deployCompose(session: Session, path: string, flags: DeployFlags): Promise<void> {
  const group = await openGroup(session, path, flags.name, flags.dryRun === true)
  if (flags.dryRun) return
  const { out } = session
  await prepareServices(session, group)
  const plan = await planGroup(session, group)
  showGroup(session, group, plan)
  const named = flags.name === undefined ? '' : ` --name ${shellWord(flags.name)}`
  const next = `slipway deploy ${shellWord(path)}${named} --yes`
  const missing = plan.steps.find(({ action }) => action === 'create')
  if (missing && !flags.create && !out.isInteractive)
    throw usageError(
      `There is no deployment ${missing.name}. Without a terminal, --create creates it.`,
      `${next} --create`,
    )
  const names = group.services.map(({ document }) => document.name)
  await confirm(session, `Deploy ${names.join(', ')}?`, next, { byDefault: true })
  for (const service of group.services) await bringService(session, service)
  const changed = new Map<string, Deployment>()
  try {
    for await (const { name, deployment } of applyPlan(await planGroup(session, group), session.signal))
      if (deployment) changed.set(name, deployment)
  } catch (error) {
    throw describeFailure(session, error, next)
  }
  for (const name of names) await followService(session, name, changed.get(name), flags)
}

/** Uploads nothing: what is in the archives is decided by the folders. */
export async function planCompose(
  session: Session,
  path: string,
  flags: GroupFlags & { exitCode?: boolean },
): Promise<void> {
  const group = await openGroup(session, path, flags.name, false)
  await prepareServices(session, group)
  const steps = showGroup(session, group, await planGroup(session, group))
  if (flags.exitCode && steps.some(({ action }) => action !== 'nothing')) process.exitCode = EXIT.hasChanges
}

async function openGroup(session: Session, path: string, name: string | undefined, listFiles: boolean): Promise<Group> {
  const file = resolve(path)
  const root = dirname(file)
  session.folder = root
  const { project, planned, notes } = await readCompose(file, name)
  const { out } = session
  out.emit({ type: 'compose', project, deployments: planned.map(({ document }) => document.name), notes })
  for (const sentence of notes) out.note(sentence)
  const services: Service[] = []
  for (const one of planned) services.push({ ...one, packed: await packService(session, one, { root, listFiles }) })
  return { project, services }
}

/** Finds their deployments and images, and refuses what cannot be deployed. */
async function prepareServices(session: Session, { services }: Group): Promise<void> {
  for (const service of services) service.stored = await findByName(session, service.document.name)
  const targets = services.map(({ document, stored, packed, image }) => {
    return { name: document.name, deployment: stored, plan: packed?.plan, image }
  })
  await requireImageAgents(session, targets)
  for (const service of services) service.copy = await openImage(session, service, service.stored)
}

/** Shows the files of a folder as a change, because they become a revision. */
function showGroup(session: Session, { services }: Group, plan: ApplyPlan): Step[] {
  const steps = plan.steps.map((step): Step => {
    const archive = services.find(({ document }) => document.name === step.name)?.packed?.archive
    if (!archive) return step
    // The warning of a new deployment is that there is no archive yet, which this command brings.
    if (step.action === 'create') return { ...step, warnings: [] }
    const files = { path: 'files', before: null, after: archive.sha256 }
    return { ...step, action: 'change', changes: [...step.changes, files] }
  })
  showPlan(session, { ...plan, steps })
  return steps
}

async function planGroup(session: Session, { project, services }: Group): Promise<ApplyPlan> {
  const { client, login, signal } = session
  const workspace = await findWorkspace(client, { workspace: login.workspace, signal })
  if (!workspace) throw usageError('Name the workspace: the key is of the organization.', 'SLIPWAY_WORKSPACE=ID …')
  const secrets = new Map(
    services.flatMap(({ document, secrets }) =>
      Object.entries(secrets).map(([name, value]): [string, string] => [`${document.name}/${name}`, value]),
    ),
  )
  const documents = services.map(({ document }) => document)
  const plan = await planApply(client, documents, { workspace: workspace.id, owner: project, secrets, signal })
  if (plan.faults.length > 0) throw refuseDocuments(plan.faults)
  return plan
}

/** Before anything is created or changed, so a failure leaves all as it is. */
async function bringService(session: Session, service: Service): Promise<void> {
  const { document, packed, copy, stored } = service
  if (copy) await bringImage(session, service, copy)
  if (packed === null) return
  const { source_revision_config: config } = document.spec as { source_revision_config: object }
  const source_tarball_path = await uploadArchive(session, stored?.id ?? config, packed.archive)
  Object.assign(config, { source_tarball_path })
}

async function followService(
  session: Session,
  name: string,
  changed: Deployment | undefined,
  follow: DeployFlags,
): Promise<void> {
  if (changed) return applyAndFollow(session, async () => changed, follow)
  const deployment = await findByName(session, name)
  if (!deployment) throw usageError(`The deployment ${name} was deleted in the meantime. Run the command again.`)
  finish(session, deployment, 'unchanged')
}
