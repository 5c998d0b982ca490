// Builds an image from an application's files: by its Dockerfile, or by its commands in a base image.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, relative } from 'node:path'
import { Readable } from 'node:stream'
import { packTar } from 'modern-tar/fs'
import type { Tool, ToolName } from '../../build-plan/build-plan.ts'
import { withModuleCache } from '../builds/module-cache.ts'
import { planSource } from '../builds/source-plan.ts'
import { type Artifact, type BuildTask, PermanentError, type RevisionSpec, type SourceTree } from '../engine.ts'
import { readText } from '../system/files.ts'
import { findBaseImages } from './base-images.ts'
import { createBuildLogParser } from './build-lines.ts'
import { explainExit } from './container-failures.ts'
import { deploymentLabels, REVISION_LABEL, ROLE_LABEL, resourcePrefix } from './container-labels.ts'
import { followLog, LOG_START } from './container-log.ts'
import { type CreateRequest, type DockerApi, DockerApiError, MAX_PROCESSES } from './docker-api.ts'
import { parseDockerignore } from './dockerignore.ts'
import { explainBuildFailure } from './image-failures.ts'

const BUILD_TIMEOUT_MS = 15 * 60_000
const BUILD_MEMORY = 4 * 1024 ** 3
const LAST_LINES = 10
const MAX_DOCKERIGNORE_LENGTH = 32 * 1024
const APP_FOLDER = '/app'
const APP_HOME = '/home/app'
const CACHE_FOLDER = '/cache'
const CACHE_MB = 1024
/** The shell sources and removes the file first, so no secret becomes part of the image. */
const ENV_FILE = '/slipway.env'
/** Empties a cache that has grown too large. */
const BUILD_PRELUDE = `set -e; . ${ENV_FILE}; rm ${ENV_FILE}
if [ "$(du -sm ${CACHE_FOLDER} | cut -f 1)" -ge ${CACHE_MB} ]; then rm -rf ${CACHE_FOLDER}/* ${CACHE_FOLDER}/.[!.]*; fi`

type BuildJob = {
  api: DockerApi
  owner: string
  spec: RevisionSpec
  tree: SourceTree
  task: BuildTask
  /** The user that runs the application, if it must not be root. It owns the source and a home folder. */
  user?: number
}
export const hasDockerfile = (tree: SourceTree) => fs.existsSync(join(tree.folder, 'Dockerfile'))

/** The images that the Dockerfile uses. */
export function readBaseImages({ folder }: SourceTree): string[] {
  const dockerfile = readText(folder, 'Dockerfile')
  if (dockerfile === null) throw new PermanentError('The Dockerfile is a link or a folder. Replace it with a file.')
  return findBaseImages(dockerfile)
}

/** Returns the id of the image. */
export async function buildDockerfile({ api, owner, spec, tree, task }: BuildJob): Promise<string> {
  const { signal, log, failed } = watchBuild(task)
  const labels = { ...deploymentLabels(owner, spec.deployment_id), [REVISION_LABEL]: spec.revision_id }
  const version = (await api.hasBuildKit()) ? 2 : undefined
  const query = {
    t: builtImageTag(spec),
    labels,
    version,
    rm: true,
    forcerm: true,
    memory: BUILD_MEMORY,
    memswap: BUILD_MEMORY,
  }
  const headers = { 'Content-Type': 'application/x-tar' }
  const body = Readable.from(packTar(tree.folder, { filter: dockerignoreFilter(tree.folder) }))
  const lines = createBuildLogParser()
  let id: string | undefined
  try {
    for await (const message of api.streamProgress('/build', { query, headers, body, signal })) {
      lines.push(message).forEach(log)
      if (typeof message.aux === 'object') id = message.aux.ID ?? id
    }
    lines.end().forEach(log)
  } catch (error) {
    lines.end().forEach(log)
    throw failed(error instanceof DockerApiError && error.status ? explainBuildFailure(error.message) : error)
  }
  if (!id) throw failed('The engine ended the build without an image. Ask the operator to check the engine’s log.')
  return id
}

/** The cache is a volume that is kept between builds. */
export async function buildInBaseImage(
  base: string,
  { api, owner, spec, tree, task, user }: BuildJob,
): Promise<Pick<Artifact, 'location' | 'start_command' | 'env'>> {
  const { signal, log, failed } = watchBuild(task)
  const plan = planSource(tree, true, task)
  if (plan.start === null)
    throw new PermanentError(
      'A static site needs a server of its own in a container. Add a Dockerfile, or set `start_command` in ' +
        'slipway.json, or use a listener whose agent runs processes.',
    )
  const inApp = (folder: string) => (folder === '' ? APP_FOLDER : `${APP_FOLDER}/${folder}`)
  const programs = plan.programs.map(name => `${inApp(plan.root)}/${name}`)
  const path = programs.length > 0 ? `export PATH="${programs.join(':')}:$PATH"` : null
  const inside = (folder: string) => (folder === '' ? null : `cd ${shellQuote(inApp(folder))}`)
  const start = [path, inside(plan.root), plan.start].filter(Boolean).join(' && ')
  const { install, build } = plan
  const shared = deploymentLabels(owner, spec.deployment_id)
  const volume = `${resourcePrefix(owner, spec.deployment_id)}-cache`
  await api.post('/volumes/create', { Name: volume, Driver: 'local', Labels: shared })
  const changeOwner =
    user === undefined
      ? null
      : `mkdir -p ${APP_HOME} /tmp; chmod 1777 /tmp; chown -R ${user}:${user} ${APP_FOLDER} ${APP_HOME}`
  const otherInputs = { base, env: tree.env, secrets: spec.secrets }
  const cachedInstall =
    install &&
    (await withModuleCache(install, { folder: join(tree.folder, plan.install_root), cache: CACHE_FOLDER, otherInputs }))
  const steps = [path, inside(plan.install_root), cachedInstall, `cd ${shellQuote(inApp(plan.root))}`, build]
  const commands = [BUILD_PRELUDE, ...requireTools(base, plan.tools), ...steps, changeOwner].filter(Boolean)
  const entry = [`ENTRYPOINT ["/bin/sh", "-c"]`, `CMD ${JSON.stringify([start])}`]
  const changes = [`WORKDIR ${APP_FOLDER}`, `USER ${user}:${user}`, `ENV HOME=${APP_HOME}`, ...entry]
  const create: CreateRequest = {
    name: `slipway-${spec.name}-build-${randomBytes(6).toString('hex')}`,
    body: {
      Image: base,
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
  for (const command of [install, build]) if (command) task.log(`Running in ${base}: ${command}`)
  const container = await api.post<{ Id: string }>('/containers/create', create.body, { name: create.name })
  const at = `/containers/${container.Id}`
  try {
    await uploadFiles(api, at, { ...plan.env, ...tree.env, ...spec.secrets }, tree, signal)
    await api.post(`${at}/start`)
    const state = await followLog(api, container.Id, { ...LOG_START }, signal, log)
    signal.throwIfAborted()
    if (!state) throw failed('The build container was removed from outside. Deploy again.')
    if (state.ExitCode !== 0) throw failed(`The build ${explainExit(state, BUILD_MEMORY)}.`)
    const query = {
      container: container.Id,
      repo: builtImageName(spec),
      tag: spec.revision_id,
      ...(user !== undefined && { changes: changes.join('\n') }),
    }
    const { Id } = await api.ask<{ Id: string }>('POST', '/commit', {
      query,
      body: {},
      signal,
      timeoutMs: BUILD_TIMEOUT_MS,
    })
    const location = Id.startsWith('sha256:') ? Id : `sha256:${Id}`
    return { location, start_command: start, env: { ...plan.env, ...tree.env } }
  } catch (error) {
    throw failed(error instanceof DockerApiError && error.status ? explainBuildFailure(error.message) : error)
  } finally {
    await api.removeContainer(container.Id).catch(() => {})
  }
}

/** The program by which a tool is known to be in the image. npm brings its own kind where it is not. */
const PROGRAMS: Partial<Record<ToolName, string>> = { python: 'python3', rust: 'cargo', maven: 'mvn' }
const FROM_NPM: ToolName[] = ['pnpm', 'yarn', 'bun', 'deno']

const requireTools = (base: string, tools: Tool[]): string[] =>
  tools.map(({ name, version }) => {
    const program = PROGRAMS[name] ?? name
    const packageName = name === 'yarn' && !/^1/.test(version ?? '1') ? '@yarnpkg/cli-dist' : name
    const wanted = `${packageName}@${version ?? 'latest'}`
    const missing = `The image ${base} has no ${name}. Add a Dockerfile, or ask the operator for an image with it.`
    const otherwise = FROM_NPM.includes(name)
      ? `npm install --global --no-fund --no-audit ${shellQuote(wanted)}`
      : `{ echo ${shellQuote(missing)}; exit 1; }`
    return `command -v ${program} > /dev/null || ${otherwise}`
  })

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
  const headers = { 'Content-Type': 'application/x-tar' }
  const upload = (body: Readable) =>
    api.ask('PUT', `${at}/archive`, { query: { path: '/' }, headers, body, signal, timeoutMs: BUILD_TIMEOUT_MS })
  await upload(Readable.from(files))
  const env = { ...variables, XDG_CACHE_HOME: CACHE_FOLDER, npm_config_cache: `${CACHE_FOLDER}/npm` }
  const content = Object.entries(env).map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
  await upload(
    Readable.from(packTar([{ type: 'content', content: content.join(''), target: ENV_FILE.slice(1), mode: 0o600 }])),
  )
}

/** A signal that ends with the task or the build timeout, and errors that include the last log lines. */
function watchBuild(task: BuildTask) {
  const timeout = AbortSignal.timeout(BUILD_TIMEOUT_MS)
  const last: string[] = []
  const log = (line: string) => {
    last.push(line)
    last.splice(0, last.length - LAST_LINES)
    task.log(line)
  }
  const failed = (cause: unknown): unknown => {
    if (task.signal.aborted) return task.signal.reason
    if (typeof cause !== 'string' && !timeout.aborted) return cause
    const message = timeout.aborted ? `The build did not end within ${BUILD_TIMEOUT_MS / 60_000} minutes.` : cause
    return new PermanentError(`${message}${last.length ? ` Its last lines:\n${last.join('\n')}` : ''}`)
  }
  return { signal: AbortSignal.any([task.signal, timeout]), log, failed }
}

const excludeGit = (folder: string) => (path: string) => !/(^|\/)\.git(\/|$)/.test(relative(folder, path))
function dockerignoreFilter(folder: string): (path: string, stat: fs.Stats) => boolean {
  const text = readText(folder, '.dockerignore') ?? ''
  // The limit is needed because every file is matched against every line.
  if (text.length > MAX_DOCKERIGNORE_LENGTH)
    throw new PermanentError(`The .dockerignore has more than ${MAX_DOCKERIGNORE_LENGTH} characters. Shorten it.`)
  const ignored = parseDockerignore(text)
  return (path, stat) => excludeGit(folder)(path) && !ignored(relative(folder, path), stat.isDirectory())
}
const shellQuote = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`
const builtImageName = ({ deployment_id }: RevisionSpec) => `slipway/${deployment_id}`
const builtImageTag = (spec: RevisionSpec) => `${builtImageName(spec)}:${spec.revision_id}`
