// Deploys the services of a compose file as one group: translated, shown and planned before anything is uploaded.
import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { applyPlan } from '../../client/apply/apply.ts'
import { planApply } from '../../client/apply/plan.ts'
import type { Deployment } from '../../client/apply/planner.ts'
import { CONFIGURATION } from '../../client/archive-rules.ts'
import { parseEnvFile } from '../../client/env-file.ts'
import { findWorkspace } from '../../client/export.ts'
import type { Archive } from '../archive.ts'
import { applyAndFollow, finish } from '../change.ts'
import { readDocumentFiles } from '../document-files.ts'
import { describeFailure, refuseDocuments, showPlan } from '../document-plan.ts'
import { CommandFailure, EXIT, shellWord, usageError } from '../failure.ts'
import { planFolder, showBuildPlan } from '../folder-plan.ts'
import { packAndShow, uploadArchive } from '../folder-source.ts'
import { planNewImage } from '../remote-sources.ts'
import { confirm, findByName, type Session } from '../session.ts'
import { type Planned, type Translation, translateCompose } from './translate.ts'

const DOCKERFILE = 'Dockerfile'

type Flags = {
  name?: string | undefined
  create?: boolean
  dryRun?: boolean | undefined
  detach: boolean
  timeoutMs: number
}
type Packed = Planned & { archive: Archive | null }

export async function deployCompose(session: Session, path: string, flags: Flags): Promise<void> {
  const file = resolve(path)
  session.folder = dirname(file)
  const translation = await translateFile(file, flags.name)
  const { out } = session
  for (const sentence of translation.notes) out.note(sentence)
  const packed = await packServices(session, translation, dirname(file), flags.dryRun === true)
  if (flags.dryRun) return
  const plan = await planGroup(session, translation)
  showPlan(session, {
    ...plan,
    steps: plan.steps.map(step => (isFirst(step, packed) ? { ...step, warnings: [] } : step)),
  })
  const names = translation.planned.map(({ document }) => document.name)
  const named = flags.name === undefined ? '' : ` --name ${shellWord(flags.name)}`
  const next = `slipway deploy ${shellWord(path)}${named} --yes`
  const missing = plan.steps.find(({ action }) => action === 'create')
  if (missing && !flags.create && !out.isInteractive)
    throw usageError(
      `There is no deployment ${missing.name}. Without a terminal, --create creates it.`,
      `${next} --create`,
    )
  await confirm(session, `Deploy ${names.join(', ')}?`, next, { byDefault: true })
  const changed = new Map<string, Deployment>()
  try {
    for await (const { name, deployment } of applyPlan(plan, session.signal))
      if (deployment) changed.set(name, deployment)
  } catch (error) {
    throw describeFailure(session, error, next)
  }
  for (const service of packed) await deployService(session, service, changed.get(service.document.name), flags)
}

/** The warning of a first deploy is that there is no archive yet, which this command brings. */
const isFirst = ({ name, action }: { name: string; action: string }, packed: Packed[]): boolean =>
  action === 'create' && packed.some(({ document, archive }) => document.name === name && archive !== null)

async function translateFile(file: string, name: string | undefined): Promise<Translation> {
  const { documents, faults } = await readDocumentFiles([file])
  if (faults.length > 0) throw refuseDocuments(faults)
  const [document] = documents
  if (!document) throw usageError(`${file} is empty.`)
  const folder = dirname(file)
  const outside = new Set<string>()
  const readEnvFile = (path: string) => {
    const at = resolve(folder, path)
    // A device has no end.
    if (!statSync(at, { throwIfNoEntry: false })?.isFile()) return null
    // A link in a folder of somebody else may lead to credentials of this user.
    const place = relative(realpathSync(folder), realpathSync(at))
    if (place.startsWith('..') || isAbsolute(place)) outside.add(path)
    return parseEnvFile(readFileSync(at, 'utf8'))
  }
  const translation = translateCompose(document.value, {
    suggested: basename(folder),
    name,
    variables: readEnvFile('.env') ?? {},
    shell: process.env,
    readEnvFile,
  })
  if (outside.size > 0)
    translation.notes.push(`Variables are read from outside of ${folder}: \`${[...outside].join('`, `')}\`.`)
  if (translation.faults.length === 0) return translation
  const errors = translation.faults.map(({ path, message }) => ({
    loc: [`${document.placeOf(path).file}:${document.placeOf(path).line}`, path.join('.')],
    msg: message,
  }))
  const message = `${basename(file)} cannot be deployed as it is. Nothing was changed.`
  throw new CommandFailure(EXIT.failed, 'compose_not_translated', message, undefined, undefined, errors)
}

/** The command of a service and the port of its image become part of its archive. */
async function packServices(
  session: Session,
  { planned }: Translation,
  root: string,
  listFiles: boolean,
): Promise<Packed[]> {
  const packed: Packed[] = []
  for (const one of planned) {
    if (!one.build) {
      packed.push({ ...one, archive: null })
      continue
    }
    const folder = resolve(root, one.build.folder)
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw usageError(`The service ${one.service} is built in ${folder}, which is no folder.`)
    session.out.note(`${one.service}: ${folder}`)
    const { start_command, port } = one.build
    const hasOwn = existsSync(join(folder, CONFIGURATION))
    if (start_command !== null) refuseCommand(folder, one, hasOwn)
    const added = {
      ...(start_command !== null && { [CONFIGURATION]: JSON.stringify({ start_command }) }),
      ...exposePort(session, folder, one.service, port),
    }
    const archive = await packAndShow(session, folder, listFiles, added)
    showBuildPlan(session, planFolder(folder, archive))
    if (hasOwn || start_command !== null)
      Object.assign(one.document.spec, { source_revision_config: { platform_config_path: CONFIGURATION } })
    packed.push({ ...one, archive })
  }
  return packed
}

function refuseCommand(folder: string, { service }: Planned, hasOwn: boolean): void {
  if (hasOwn)
    throw usageError(`The service ${service} has a \`command\` and a ${CONFIGURATION}. Write it there, and remove it.`)
  const dockerfile = join(folder, DOCKERFILE)
  if (existsSync(dockerfile) && argumentsOf(readFileSync(dockerfile, 'utf8'), 'ENTRYPOINT').length > 0)
    throw usageError(`The \`command\` of ${service} would replace the ENTRYPOINT of its Dockerfile. Write it there.`)
}

/** The words of all instructions of a Dockerfile with that name. */
function argumentsOf(dockerfile: string, instruction: string): string[] {
  return dockerfile.split('\n').flatMap(line => {
    const [name = '', ...words] = line.trim().split(/\s+/)
    return name.toUpperCase() === instruction ? words : []
  })
}

/** An image is served on the one port that it exposes. */
export function exposePort(
  { out }: Pick<Session, 'out'>,
  folder: string,
  service: string,
  port: string | null,
): Record<string, string> {
  const file = join(folder, DOCKERFILE)
  // The target of a link is not in the folder, and would be in the upload.
  if (port === null || !lstatSync(file, { throwIfNoEntry: false })?.isFile()) return {}
  const text = readFileSync(file, 'utf8')
  const exposed = argumentsOf(text, 'EXPOSE').map(exposed => exposed.split('/', 1)[0])
  if (exposed.includes(port)) return {}
  if (exposed.length > 0) {
    out.note(`${service}: its Dockerfile exposes ${exposed.join(', ')}, and not ${port}. It has to listen on PORT.`)
    return {}
  }
  out.note(`${service}: it listens on ${port}, so its Dockerfile gets \`EXPOSE ${port}\` in the upload.`)
  return { [DOCKERFILE]: `${text}\nEXPOSE ${port}\n` }
}

async function planGroup(session: Session, { project, planned }: Translation) {
  const { client, login, signal } = session
  const workspace = await findWorkspace(client, { workspace: login.workspace, signal })
  if (!workspace) throw usageError('Name the workspace: the key is of the organization.', 'SLIPWAY_WORKSPACE=ID …')
  for (const { document, image } of planned)
    if (image !== null) {
      const stored = await findByName(session, document.name)
      const source = stored?.source ?? (await planNewImage(session, document.name, image)).body.source
      Object.assign(document.spec, { source })
    }
  const secrets = new Map(
    planned.flatMap(({ document, secrets }) =>
      Object.entries(secrets).map(([name, value]): [string, string] => [`${document.name}/${name}`, value]),
    ),
  )
  const documents = planned.map(({ document }) => document)
  const plan = await planApply(client, documents, { workspace: workspace.id, owner: project, secrets, signal })
  if (plan.faults.length > 0) throw refuseDocuments(plan.faults)
  return plan
}

async function deployService(
  session: Session,
  { document: { name }, archive }: Packed,
  changed: Deployment | undefined,
  follow: Flags,
): Promise<void> {
  const { client, signal } = session
  const deployment = changed ?? (await findByName(session, name))
  if (!deployment) throw usageError(`The deployment ${name} was deleted in the meantime. Run the command again.`)
  if (archive === null) {
    if (!changed) return finish(session, deployment, 'unchanged')
    return applyAndFollow(session, async () => changed, follow)
  }
  const source_tarball_path = await uploadArchive(session, deployment.id, archive)
  const body = { source_revision_config: { source_tarball_path } }
  const params = { deployment_id: deployment.id }
  await applyAndFollow(
    session,
    () => client.call('PATCH /v2/deployments/{deployment_id}', { params, body, signal }),
    follow,
  )
}
