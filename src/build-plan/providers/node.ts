// Node.js and Bun: the package manager, the framework, and the scripts of package.json.
import type { Proposal, Tool } from '../build-plan.ts'
import { quote } from '../shell-words.ts'
import { type Folder, relativePath } from '../source-files.ts'
import { findVersion } from '../versions.ts'
import { findFramework, hasConfiguration, showsFiles } from './node/frameworks.ts'
import { findManager, type Manager } from './node/managers.ts'
import { type Manifest, readManifest } from './node/manifest.ts'
import { findApplications, findBuiltBefore, listPackages } from './node/workspaces.ts'

const PROGRAMS = ['server', 'index', 'app', 'main', 'src/server', 'src/index', 'src/app', 'src/main'].flatMap(name =>
  ['js', 'mjs', 'cjs', 'ts', 'mts'].map(ending => `${name}.${ending}`),
)

const UNREADABLE = 'package.json cannot be read: it has more than 1 MB, or is a link to elsewhere or no file.'

export function proposeNode(app: Folder): Proposal | null {
  const manifest = readManifest(app)
  const other = ['package.json5', 'package.yaml'].find(app.has)
  if (!manifest && other) return { refusal: `\`${other}\` is for pnpm alone. Write it as package.json.` }
  if (!manifest) return proposeProgram(app)
  if (app.read('package.json') === null) return { refusal: UNREADABLE }
  const manager = findManager(app, manifest)
  const framework = findFramework(manifest)
  const start = manifest.scripts.start
  const served = framework?.serve(app, manifest)
  // The start script of a framework's template stays when its build is changed to make files alone.
  const hasServer = start !== undefined && !(served && 'site' in served && (showsFiles(start) || served.isAlone))
  const program = [manifest.main, ...PROGRAMS].find(file => file !== null && app.has(file)) ?? null
  if (!hasServer && !program && !(framework && hasConfiguration(app))) {
    const applications = findApplications(app, listPackages(app))
    if (applications.length > 0) return chooseApplication(app, applications)
  }
  const build = [buildOf(app, manifest, manager, framework?.build), served?.after].filter(Boolean).join(' && ') || null
  const brings = app.has('node_modules') || manager.folder.has('node_modules')
  const installs = hasPackages(manifest, manager) && !brings
  const source = framework ? `package.json has ${framework.name}` : 'package.json makes it a package'
  const release = findRelease(app, manifest)
  const common = {
    ...(release && { release }),
    install_root: manager.folder.path,
    tools: listTools(app, manifest, manager),
    install: installs ? manager.install(build !== null || release !== null) : null,
    build,
    env: framework?.env ?? {},
    programs: ['node_modules/.bin', ...(manager.folder.path === app.path ? [] : [upwards(app, manager.folder)])],
    certain: [`${source}${installs ? `, and ${manager.name} installs it` : ''}.`],
    warnings: installs ? (manager.warnings ?? []) : [],
  }
  // package.json may only bring the assets of an application in another language.
  if (hasServer) return { ...common, start: manager.name === 'npm' ? 'npm start --silent' : manager.run('start') }
  if (served) {
    const isUncertain = ['composer.json', 'mix.exs', 'Gemfile', 'manage.py'].some(app.has)
    if ('start' in served) return { ...common, start: served.start, isUncertain }
    const { site, fallback = null } = served
    return {
      ...common,
      kind: 'static',
      site: { folder: siteFolder(app, site), fallback },
      isUncertain,
      guessed: [`Its build makes the site in \`${site}\`.`],
    }
  }
  if (program)
    return { ...common, start: `${runnerOf(manager)} ${program}`, guessed: [`\`${program}\` is its program.`] }
  return {
    ...common,
    isUncertain: true,
    lacksStart: true,
    refusal: 'package.json has no `start` script, and no framework or program is known in it. Add `"start": "node …"`.',
  }
}

/** The migrations of Prisma, unless the source runs them. A database in a file would not last until the start. */
function findRelease(app: Folder, { dependencies, scripts }: Manifest): string | null {
  const migrate = 'prisma migrate deploy'
  const isOnServer = /provider\s*=\s*"(?:postgres|mysql|sqlserver|cockroach)/.test(
    app.read('prisma/schema.prisma') ?? '',
  )
  const isOwn = `${scripts.start} ${scripts.build}`.includes(migrate)
  const hasMigrations = 'prisma' in dependencies && app.folder('prisma/migrations').names().length > 0
  return hasMigrations && isOnServer && !isOwn ? migrate : null
}

/** Without package.json, a file that Node runs by itself. */
function proposeProgram(app: Folder): Proposal | null {
  const program = PROGRAMS.find(file => /\.(?:js|mjs|cjs)$/.test(file) && app.has(file))
  // A page has scripts as well.
  if (program === undefined || app.has('index.html') || app.has('deno.json') || app.has('deno.jsonc')) return null
  return {
    tools: [findVersion(app, 'node', NODE_FILES)],
    start: `node ${program}`,
    guessed: [`\`${program}\` is its program.`],
  }
}

const NODE_FILES = ['.node-version', '.nvmrc']

const LISTED = 8

function chooseApplication(root: Folder, applications: { folder: Folder; manifest: Manifest }[]): Proposal {
  const [only] = applications
  if (applications.length > 1) {
    const roots = applications.map(({ folder }) => folder.path).sort()
    const listed = roots.slice(0, LISTED).map(path => `\`${path}\``)
    const more = roots.length > LISTED ? ` and ${roots.length - LISTED} more` : ''
    const found = `The workspace has ${roots.length} applications: ${listed.join(', ')}${more}`
    return { roots, refusal: `${found}. Choose the folder of one as its root (\`root_directory\`).` }
  }
  const proposal = proposeNode(only!.folder) ?? {}
  // Commands run in the folder of the source, so they enter that of the application.
  const path = only!.folder.path.slice(root.path === '' ? 0 : root.path.length + 1)
  const inside = (command: string | null | undefined) => (command ? `cd ${quote(path)} && ${command}` : null)
  const { site } = proposal
  return {
    ...proposal,
    build: inside(proposal.build),
    ...(proposal.start && { start: inside(proposal.start)! }),
    ...(proposal.release && { release: inside(proposal.release) }),
    ...(site && { site: { ...site, folder: `${path}/${site.folder}` } }),
    programs: [`${path}/node_modules/.bin`, 'node_modules/.bin'],
    guessed: [`Of the workspace, \`${path}\` is the application.`, ...(proposal.guessed ?? [])],
  }
}

function listTools(app: Folder, { engines, scripts }: Manifest, { tool, name }: Manager): Tool[] {
  const found = findVersion(app, 'node', NODE_FILES)
  const node: Tool =
    found.version === null && engines.node !== undefined
      ? { name: 'node', version: engines.node, from: 'package.json' }
      : found
  // Bun may start what npm installs.
  const usesBun = name !== 'bun' && /(^|\s)bunx?\s/.test(`${scripts.start} ${scripts.build}`)
  const bun = usesBun ? [findVersion(app, 'bun', ['.bun-version'])] : []
  return [node, ...(tool ? [tool] : []), ...bun]
}

const hasPackages = ({ dependencies, workspaces }: Manifest, { folder }: Manager) =>
  Object.keys(dependencies).length > 0 || workspaces.length > 0 || (readManifest(folder)?.workspaces.length ?? 0) > 0

/** The build script, or the framework's own command; the packages of the workspace that it needs before it. */
function buildOf(app: Folder, manifest: Manifest, manager: Manager, ofFramework: string | undefined): string | null {
  const own = manifest.scripts.build !== undefined ? manager.run('build') : (ofFramework ?? null)
  const root = manager.folder
  if (root.path === app.path || own === null) return own
  if (root.has('turbo.json') && manifest.name) return manager.exec(`turbo run build --filter=${quote(manifest.name)}`)
  const before = findBuiltBefore(manifest, listPackages(root))
  const enter = before.map(
    ({ folder }) => `(cd ${quote(relativePath(app.path, folder.path))} && ${manager.run('build')})`,
  )
  return [...enter, own].join(' && ')
}

const runnerOf = ({ name }: Manager) => (name === 'bun' ? 'bun' : name === 'yarn' ? 'yarn node' : 'node')

const siteFolder = (app: Folder, site: string) =>
  /^root:[ \t]*["']?([\w./-]+)/m.exec(app.read('Staticfile') ?? '')?.[1] ?? site

const upwards = (app: Folder, root: Folder) => `${relativePath(app.path, root.path)}/node_modules/.bin`
