// From an application's files to an image: by its Dockerfile, or by its commands in a base image.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, relative } from 'node:path'
import { Readable } from 'node:stream'
import { packTar } from 'modern-tar/fs'
import { keepingModules } from '../../builds/modules.ts'
import { readText } from '../../files.ts'
import { type Task, type Tree, type Unit, Unworkable } from '../engine.ts'
import { installOf, startOf } from '../process/prepare.ts'
import { type ContainerApi, EngineFailure } from './api.ts'
import { basesIn } from './bases.ts'
import { buildLines } from './build-lines.ts'
import { ignores } from './dockerignore.ts'
import { buildFailure, ending } from './failures.ts'
import { BEGINNING, follow } from './log.ts'
import { type Create, deploymentLabels, networkName, PROCESSES, REVISION, ROLE } from './spec.ts'

const BUILD_MS = 15 * 60_000
const MEMORY = 4 * 1024 ** 3
const LAST_LINES = 10
const LONGEST_IGNORE = 32 * 1024
const FOLDER = '/app'
const HOME = '/home/app'
const CACHE = '/cache'
const CACHE_MB = 1024
/** Sourced and removed before anything else, so that no secret becomes part of the image. */
const ENVIRONMENT = '/slipway.env'
/** What grew too big between builds begins anew. */
const BEGIN = `set -e; . ${ENVIRONMENT}; rm ${ENVIRONMENT}
if [ "$(du -sm ${CACHE} | cut -f 1)" -ge ${CACHE_MB} ]; then rm -rf ${CACHE}/* ${CACHE}/.[!.]*; fi`

type Job = {
  api: ContainerApi
  owner: string
  unit: Unit
  tree: Tree
  task: Task
  /** Who it is to run as, where that may not be root: what it was built from is theirs, and so is a home. */
  user?: number
}
export const hasDockerfile = (tree: Tree) => fs.existsSync(join(tree.folder, 'Dockerfile'))

/** The images that its Dockerfile takes. */
export function basesOf({ folder }: Tree): string[] {
  const dockerfile = readText(folder, 'Dockerfile')
  if (dockerfile === null)
    throw new Unworkable('Its Dockerfile is not a file but a link or a folder: put the file itself there.')
  return basesIn(dockerfile)
}

/** The id of the image. */
export async function buildDockerfile({ api, owner, unit, tree, task }: Job): Promise<string> {
  const { signal, tell, failed } = within(task)
  const labels = { ...deploymentLabels(owner, unit.deployment_id), [REVISION]: unit.revision_id }
  const version = (await api.hasBuildKit()) ? 2 : undefined
  const query = { t: tagOf(unit), labels, version, rm: true, forcerm: true, memory: MEMORY, memswap: MEMORY }
  const headers = { 'Content-Type': 'application/x-tar' }
  const body = Readable.from(packTar(tree.folder, { filter: wantedOf(tree.folder) }))
  const lines = buildLines()
  let id: string | undefined
  try {
    for await (const message of api.progress('/build', { query, headers, body, signal })) {
      lines.push(message).forEach(tell)
      if (typeof message.aux === 'object') id = message.aux.ID ?? id
    }
    lines.end().forEach(tell)
  } catch (error) {
    lines.end().forEach(tell)
    throw failed(error instanceof EngineFailure && error.status ? buildFailure(error.message) : error)
  }
  if (!id) throw failed('The engine ended the build without an image: look at its own log.')
  return id
}

/** The id of the image, and what starts it. Its cache is a volume that the deployment keeps from build to build. */
export async function buildInBase(
  base: string,
  { api, owner, unit, tree, task, user }: Job,
): Promise<[string, string]> {
  const start = startOf(tree)
  const { signal, tell, failed } = within(task)
  const install = tree.install_command ?? installOf(tree.folder)
  const shared = deploymentLabels(owner, unit.deployment_id)
  const volume = `${networkName(owner, unit.deployment_id)}-cache`
  await api.post('/volumes/create', { Name: volume, Driver: 'local', Labels: shared })
  const given =
    user === undefined ? null : `mkdir -p ${HOME} /tmp; chmod 1777 /tmp; chown -R ${user}:${user} ${FOLDER} ${HOME}`
  const from = { base, env: tree.env, secrets: unit.secrets }
  const installing = install && (await keepingModules(install, { folder: tree.folder, cache: CACHE, from }))
  const commands = [BEGIN, installing, tree.build_command, given].filter(Boolean)
  const entry = [`ENTRYPOINT ["/bin/sh", "-c"]`, `CMD ${JSON.stringify([start])}`]
  const changes = [`WORKDIR ${FOLDER}`, `USER ${user}:${user}`, `ENV HOME=${HOME}`, ...entry]
  const create: Create = {
    name: `slipway-${unit.name}-build-${randomBytes(6).toString('hex')}`,
    body: {
      Image: base,
      Entrypoint: ['/bin/sh', '-c'],
      Cmd: [commands.join('\n')],
      WorkingDir: FOLDER,
      User: '0',
      Labels: { ...shared, [REVISION]: unit.revision_id, [ROLE]: 'build' },
      HostConfig: {
        ...{ Memory: MEMORY, MemorySwap: MEMORY, PidsLimit: PROCESSES, SecurityOpt: ['no-new-privileges'] },
        Mounts: [{ Type: 'volume', Source: volume, Target: CACHE }],
      },
    },
  }
  for (const command of [install, tree.build_command]) if (command) task.log(`To run in ${base}: ${command}`)
  const container = await api.post<{ Id: string }>('/containers/create', create.body, { name: create.name })
  const at = `/containers/${container.Id}`
  try {
    await put(api, at, tree, unit, signal)
    await api.post(`${at}/start`)
    const state = await follow(api, container.Id, { ...BEGINNING }, signal, tell)
    signal.throwIfAborted()
    if (!state) throw failed('Its build was taken away by somebody else: deploy it again.')
    if (state.ExitCode !== 0) throw failed(`The build ${ending(state, MEMORY)}.`)
    const query = {
      ...{ container: container.Id, repo: nameOf(unit), tag: unit.revision_id },
      ...(user !== undefined && { changes: changes.join('\n') }),
    }
    const { Id } = await api.ask<{ Id: string }>('POST', '/commit', { query, body: {}, signal, within: BUILD_MS })
    return [Id.startsWith('sha256:') ? Id : `sha256:${Id}`, start]
  } catch (error) {
    throw failed(error instanceof EngineFailure && error.status ? buildFailure(error.message) : error)
  } finally {
    await api.discard(container.Id).catch(() => {})
  }
}

async function put(api: ContainerApi, at: string, tree: Tree, unit: Unit, signal: AbortSignal): Promise<void> {
  const inFolder = packTar(tree.folder, {
    filter: ours(tree.folder),
    map: header => ({ ...header, name: `${FOLDER.slice(1)}/${header.name}` }),
  })
  const headers = { 'Content-Type': 'application/x-tar' }
  const ask = (body: Readable) =>
    api.ask('PUT', `${at}/archive`, { query: { path: '/' }, headers, body, signal, within: BUILD_MS })
  await ask(Readable.from(inFolder))
  const env = { ...tree.env, ...unit.secrets, XDG_CACHE_HOME: CACHE, npm_config_cache: `${CACHE}/npm` }
  const content = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}\n`)
  await ask(
    Readable.from(packTar([{ type: 'content', content: content.join(''), target: ENVIRONMENT.slice(1), mode: 0o600 }])),
  )
}

/** Ends with the task or its time; keeps the last lines for whoever wants to know why it failed. */
function within(task: Task) {
  const late = AbortSignal.timeout(BUILD_MS)
  const last: string[] = []
  const tell = (line: string) => {
    last.push(line)
    last.splice(0, last.length - LAST_LINES)
    task.log(line)
  }
  const failed = (why: unknown): unknown => {
    if (task.signal.aborted) return task.signal.reason
    if (typeof why !== 'string' && !late.aborted) return why
    const said = late.aborted ? `The build did not end within ${BUILD_MS / 60_000} minutes.` : why
    return new Unworkable(`${said}${last.length ? ` Its last lines:\n${last.join('\n')}` : ''}`)
  }
  return { signal: AbortSignal.any([task.signal, late]), tell, failed }
}

/** What git keeps for itself is not of the application. */
const ours = (folder: string) => (path: string) => !/(^|\/)\.git(\/|$)/.test(relative(folder, path))
function wantedOf(folder: string): (path: string, stat: fs.Stats) => boolean {
  const text = readText(folder, '.dockerignore') ?? ''
  // Every file is matched against every line of it, beside other tenants' work.
  if (text.length > LONGEST_IGNORE)
    throw new Unworkable(`Its .dockerignore has more than ${LONGEST_IGNORE} characters. Shorten it.`)
  const ignored = ignores(text)
  return (path, stat) => ours(folder)(path) && !ignored(relative(folder, path), stat.isDirectory())
}
const quoted = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`
const nameOf = ({ deployment_id }: Unit) => `slipway/${deployment_id}`
const tagOf = (unit: Unit) => `${nameOf(unit)}:${unit.revision_id}`
