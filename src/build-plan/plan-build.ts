// From the files of a source to how it is built and started. Pure: it reads no disk and runs nothing.
import { applicationRoot } from './application-root.ts'
import { type BuildPlan, PlanRefused, type ProcessType, type Proposal } from './build-plan.ts'
import type { ExplicitStart } from './explicit-start.ts'
import { proposeContainerFiles } from './providers/container-files.ts'
import { proposeDeno } from './providers/deno.ts'
import { proposeGo } from './providers/go.ts'
import { describesGraphs, GRAPH_FILE, sourceOf } from './providers/graphs/graph-file.ts'
import { proposeGraphs } from './providers/graphs.ts'
import { proposeJava } from './providers/java.ts'
import { proposeNode } from './providers/node.ts'
import { readProcfile } from './providers/procfile.ts'
import { proposePython } from './providers/python.ts'
import { proposeRuby } from './providers/ruby.ts'
import { proposeRust } from './providers/rust.ts'
import { proposeShell } from './providers/shell.ts'
import { proposeStatic } from './providers/static.ts'
import { nameUnsupported } from './providers/unsupported.ts'
import { type Folder, normalize, openSource, type SourceFiles } from './source-files.ts'
import { findExtraTools } from './versions.ts'

export type PlanOptions = {
  /** The folder of the application in the source. Null: that of the configuration file, or the source itself. */
  root?: string | null
  /** The runtime configuration, which wins over what is found. `path`: of its file, if there is one. */
  configuration?: ExplicitStart
  /** The command of the deployment or of the configuration file. Null: the one that is found. Empty: none. */
  install_command?: string | null
  build_command?: string | null
  /** The engine can build a Dockerfile. */
  buildsImages: boolean
}

type Propose = (app: Folder) => Proposal | null

/** In the order in which they are asked. The first that is certain owns the folder. */
const LANGUAGES: Record<string, Propose> = {
  node: proposeNode,
  python: proposePython,
  go: proposeGo,
  rust: proposeRust,
  java: proposeJava,
  ruby: proposeRuby,
  deno: proposeDeno,
  shell: proposeShell,
  static: proposeStatic,
}

/** Throws `PlanRefused` with a sentence for what cannot be built or started. */
export function planBuild(files: SourceFiles, options: PlanOptions): BuildPlan {
  const { configuration, buildsImages } = options
  const app = openSource(files, applicationRoot(options.root, configuration?.path))
  const explicitStart = configuration?.start_command || null
  refuseContradictions(configuration)
  // Commands may bring all that is needed.
  if (app.all().length === 0 && (app.path !== '' || explicitStart === null))
    throw new PlanRefused(app.path === '' ? 'The source has no files.' : `The source has no folder \`${app.path}\`.`)

  const container = proposeContainerFiles(app, buildsImages)
  const graphs = explicitStart === null ? findGraphs(app, configuration) : null
  if (graphs) return planGraphs(graphs, options)
  if (container?.isBuilt) {
    const certain = ['`Dockerfile` builds it, where the agent runs containers or Kubernetes.']
    const proposal = { certain, warnings: container.warnings, processes: configuration?.processes ?? [] }
    return complete(app, 'dockerfile', proposal, options, explicitStart)
  }

  const procfile = readProcfile(app)
  const processes = withConfigured(procfile.others, configuration?.processes)
  const start = explicitStart ?? (isWithoutWeb(configuration) ? null : procfile.web)
  // A Procfile names all processes.
  const isAlone = isWithoutWeb(configuration) || (start === null && procfile.others.length > 0)
  const isSettled = start !== null || isAlone || Boolean(configuration?.site)
  const [provider, proposal] = findLanguage(app) ?? []
  if (!isSettled) {
    const isUncertain = !proposal || proposal.isUncertain
    const unsupported = isUncertain ? (container?.refusal ?? nameUnsupported(app)) : null
    if (unsupported) throw new PlanRefused(unsupported)
    if (!proposal) throw nothingFound(app)
    const { refusal, roots = [] } = proposal
    if (refusal !== undefined) throw new PlanRefused(refusal, { roots, lacksStart: proposal.lacksStart ?? false })
  }
  const release = procfile.release ?? proposal?.release ?? null
  const found = { ...proposal, ...(isAlone && { kind: 'worker' as const }), release, processes }
  const plan = complete(app, provider ?? 'command', found, options, start)
  plan.warnings.push(...procfile.warnings, ...(container?.warnings ?? []))
  if (procfile.web !== null && explicitStart === null) plan.certain.push('Procfile says how it starts.')
  if (isAlone) plan.certain.push('Nothing listens, so it has no URL: its processes run alone.')
  return plan
}

type Graphs = { app: Folder; name: string }

/** The runtime configuration itself, or a file beside it. */
function findGraphs(app: Folder, configuration: PlanOptions['configuration']): Graphs | null {
  const { path = null } = configuration ?? {}
  const source = sourceOf(app)
  if (path !== null && describesGraphs(source.read(path)))
    return { app: source.folder(`${path}/..`), name: path.slice(path.lastIndexOf('/') + 1) }
  const isOther = isWithoutWeb(configuration) || Boolean(configuration?.site) || readProcfile(app).web !== null
  return !isOther && app.has(GRAPH_FILE) ? { app, name: GRAPH_FILE } : null
}

function planGraphs({ app, name }: Graphs, options: PlanOptions): BuildPlan {
  const proposal = proposeGraphs(app, name)
  const unused = ['Dockerfile', 'Procfile'].filter(app.has)
  const warnings = unused.map(file => `\`${file}\` is not used: ${name} says how it is built and started.`)
  const processes = options.configuration?.processes ?? []
  return complete(
    app,
    'graphs',
    { ...proposal, processes, warnings: [...(proposal.warnings ?? []), ...warnings] },
    options,
    null,
  )
}

const isWithoutWeb = (configuration: PlanOptions['configuration']) => configuration?.start_command === ''

/** The configuration file wins. */
const withConfigured = (found: ProcessType[], configured: ProcessType[] = []): ProcessType[] => [
  ...found.filter(({ name }) => !configured.some(one => one.name === name)),
  ...configured,
]

function refuseContradictions(configuration: PlanOptions['configuration']): void {
  const { site, processes = [], schedules = [], disks = [], release_command } = configuration ?? {}
  if (site && (processes.length + schedules.length + disks.length > 0 || release_command)) throw siteWithCommands()
}

const siteWithCommands = () =>
  new PlanRefused(
    'A static site has no process, so it has no `processes`, `schedules`, `disks` and `release_command`. Remove ' +
      'them, or set `start_command`.',
  )

/** The first that can start and is certain. An uncertain package.json beside it brings assets, such as style sheets. */
function findLanguage(app: Folder): [string, Proposal] | undefined {
  const found = Object.entries(LANGUAGES).flatMap(([name, propose]): [string, Proposal][] => {
    const proposal = propose(app)
    return proposal ? [[name, proposal]] : []
  })
  const able = found.filter(([, { refusal }]) => refusal === undefined)
  const [name, proposal] = able.find(([, { isUncertain }]) => !isUncertain) ?? able[0] ?? found[0] ?? []
  if (!name || !proposal) return undefined
  const [, assets] = found.find(([name, { isUncertain }]) => name === 'node' && isUncertain) ?? []
  return [name, assets && assets !== proposal ? withAssets(proposal, assets) : proposal]
}

const withAssets = (app: Proposal, assets: Proposal): Proposal => ({
  ...app,
  tools: [...(app.tools ?? []), ...(assets.tools ?? [])],
  install: inTurn(app.install, assets.install),
  build: inTurn(assets.build, app.build),
  certain: [...(app.certain ?? []), ...(assets.install ? ['package.json brings its assets.'] : [])],
})
const inTurn = (...commands: (string | null | undefined)[]) => commands.filter(Boolean).join(' && ') || null

function complete(
  app: Folder,
  provider: string,
  proposal: Proposal,
  { configuration, install_command, build_command, buildsImages }: PlanOptions,
  start: string | null,
): BuildPlan {
  const found = proposal.kind === 'static' ? (proposal.site ?? { folder: '', fallback: null }) : null
  const site = configuration?.site ?? (start === null ? found : null)
  const isAlone = isWithoutWeb(configuration) || proposal.kind === 'worker'
  const processes = site ? [] : (proposal.processes ?? [])
  if (isAlone && processes.length === 0)
    throw new PlanRefused('`start_command` is empty, and there are no other `processes`. Name one of them.')
  const { schedules = [], disks = [] } = configuration ?? {}
  if (site && schedules.length + disks.length > 0) throw siteWithCommands()
  const tools = proposal.tools ?? []
  return {
    provider,
    kind: site ? 'static' : isAlone ? 'worker' : proposal.kind === 'graphs' ? 'graphs' : 'web',
    root: app.path,
    graph_file: proposal.graph_file ?? null,
    install_root: proposal.install_root ?? app.path,
    // An image has the tools of its base.
    tools: [...tools, ...(buildsImages ? [] : findExtraTools(app, tools))],
    install: (install_command ?? proposal.install) || null,
    build: (build_command ?? proposal.build) || null,
    start: site || isAlone ? null : (start ?? proposal.start ?? null),
    health_path: proposal.health_path ?? null,
    sleep_path: configuration?.sleep_path ?? proposal.sleep_path ?? null,
    release: site ? null : (configuration?.release_command ?? proposal.release) || null,
    processes,
    schedules,
    disks,
    site: site && { ...site, folder: normalize(site.folder) },
    env: proposal.env ?? {},
    programs: proposal.programs ?? [],
    certain: [...(proposal.certain ?? [])],
    guessed: [...(proposal.guessed ?? [])],
    warnings: [...(proposal.warnings ?? [])],
  }
}

const LISTED = 8
function nothingFound(app: Folder): PlanRefused {
  const names = app.names()
  const listed = names.slice(0, LISTED).map(name => `\`${name}\``)
  const more = names.length > LISTED ? ` and ${names.length - LISTED} more` : ''
  return new PlanRefused(
    `Nothing here says how the application starts. The folder has ${listed.join(', ')}${more}. ` +
      'Set `start_command` in slipway.json.',
    { lacksStart: true },
  )
}
