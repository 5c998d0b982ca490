// Python applications. uv installs them, whatever wrote the list of their dependencies.
import type { Proposal, Tool } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { readToml } from '../toml.ts'
import { findVersion } from '../versions.ts'

const VENV = '.venv'
/** Poetry, PDM and Pipenv use one that is there. They look for another Python than that of the plan to make one. */
const MAKE_VENV = `uv venv ${VENV}`
const MODULES = ['main', 'app', 'server', 'api', 'application', 'wsgi', 'asgi', 'run', 'index']
const PARENTS = ['', 'app/', 'src/', 'src/app/', 'api/', 'backend/', 'server/']

export function proposePython(app: Folder): Proposal | null {
  const install = findInstall(app)
  const module = findModule(app)
  if (!install && !module && !app.has('manage.py')) return null
  const packages = listPackages(app)
  const how = findDjango(app, packages) ?? findServer(app, packages) ?? findProgram(app, module)
  const missing = (how.needs ?? []).filter(name => !packages.has(name))
  const added = missing.length > 0 ? `uv pip install --python ${VENV} ${missing.join(' ')}` : null
  const python = findPython(app)
  return {
    tools: [python, findUv(app)],
    install: [install?.command ?? MAKE_VENV, added].filter(Boolean).join(' && '),
    ...(how.build && { build: how.build }),
    ...(how.release && { release: how.release }),
    ...(how.start ? { start: how.start } : { refusal: how.refusal ?? noProgram, lacksStart: true }),
    env: { UV_PYTHON_PREFERENCE: 'system', PYTHONUNBUFFERED: '1', ...install?.env },
    programs: [`${VENV}/bin`],
    certain: [...(install ? [`${install.from} lists its packages.`] : []), ...(how.certain ?? [])],
    guessed: [...(how.guessed ?? []), ...(added ? [`${missing.join(' and ')} is added, to serve it.`] : [])],
    warnings: how.warnings ?? [],
  }
}

const noProgram =
  'The Python application has no program that is known: no `manage.py`, no `main.py`, `app.py` or the like, and no ' +
  'module that makes a web application. Add `web: …` to a Procfile, or set `start_command` in slipway.json.'

function findPython(app: Folder): Tool {
  const found = findVersion(app, 'python', ['.python-version'])
  if (found.version !== null) return found
  const runtime = /^python-(\d[\d.]*)/.exec(app.read('runtime.txt') ?? '')?.[1]
  if (runtime) return { name: 'python', version: runtime, from: 'runtime.txt' }
  const { project, tool } = readToml(app, 'pyproject.toml') ?? {}
  const wanted = Object(project)['requires-python'] ?? Object(Object(Object(tool).poetry).dependencies).python
  if (typeof wanted === 'string') return { name: 'python', version: wanted, from: 'pyproject.toml' }
  const { python_version: pipfile } = Object(readToml(app, 'Pipfile')?.requires)
  return typeof pipfile === 'string' ? { name: 'python', version: pipfile, from: 'Pipfile' } : found
}

function findUv(app: Folder): Tool {
  const required = Object(Object(readToml(app, 'pyproject.toml')?.tool).uv)['required-version']
  const found = findVersion(app, 'uv')
  return found.version === null && typeof required === 'string'
    ? { name: 'uv', version: required, from: 'pyproject.toml' }
    : found
}

type Install = { command: string; from: string; env?: Record<string, string> }

/** The first list that is there. A lock file comes before what it locks. */
function findInstall(app: Folder): Install | null {
  const inFolder = (tool: string): Record<string, string> => ({ [tool]: '1' })
  if (app.outwards().some(folder => folder.has('uv.lock')) && app.has('pyproject.toml'))
    return { command: 'uv sync --locked --no-dev', from: 'uv.lock' }
  if (app.has('poetry.lock'))
    return {
      command: `${MAKE_VENV} && uvx poetry install --only main --no-root --no-interaction`,
      from: 'poetry.lock',
      env: inFolder('POETRY_VIRTUALENVS_IN_PROJECT'),
    }
  if (app.has('pdm.lock'))
    // With the packages that its makers have tested it with.
    return {
      command: `${MAKE_VENV} && uvx --from 'pdm[locked]' pdm sync --prod --no-self`,
      from: 'pdm.lock',
      env: { PDM_CHECK_UPDATE: '0' },
    }
  if (app.has('Pipfile.lock'))
    return { command: `${MAKE_VENV} && uvx pipenv sync`, from: 'Pipfile.lock', env: inFolder('PIPENV_VENV_IN_PROJECT') }
  if (app.has('requirements.txt'))
    return {
      command: `${MAKE_VENV} && uv pip install --python ${VENV} -r requirements.txt`,
      from: 'requirements.txt',
    }
  if (app.has('pyproject.toml')) {
    const { project, tool } = readToml(app, 'pyproject.toml') ?? {}
    // Older projects of poetry have no table that uv reads.
    if (!project && Object(tool).poetry)
      return {
        command: `${MAKE_VENV} && uvx poetry install --only main --no-root --no-interaction`,
        from: 'pyproject.toml',
        env: inFolder('POETRY_VIRTUALENVS_IN_PROJECT'),
      }
    if (project) return { command: 'uv sync --no-dev', from: 'pyproject.toml' }
  }
  if (app.has('Pipfile'))
    return { command: `${MAKE_VENV} && uvx pipenv install`, from: 'Pipfile', env: inFolder('PIPENV_VENV_IN_PROJECT') }
  if (app.has('setup.py')) return { command: `${MAKE_VENV} && uv pip install --python ${VENV} .`, from: 'setup.py' }
  return null
}

/** The names of the packages that it lists, as PyPI compares them. */
function listPackages(app: Folder): Set<string> {
  const { project, tool } = readToml(app, 'pyproject.toml') ?? {}
  const pipfile = readToml(app, 'Pipfile')
  const listed = [
    ...(app.read('requirements.txt') ?? '').split('\n'),
    ...[Object(project).dependencies].flat().filter(entry => typeof entry === 'string'),
    ...Object.keys(Object(Object(Object(tool).poetry).dependencies)),
    ...Object.keys(Object(pipfile?.packages)),
  ]
  const names = listed.flatMap(line => {
    const [, name, extras = ''] = /^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([\w\s,.-]*)\])?/.exec(line) ?? []
    if (name === undefined) return []
    // These extras bring the server.
    const brought = normalizeName(name) === 'fastapi' && /\b(?:standard|all)\b/.test(extras) ? ['uvicorn'] : []
    return [normalizeName(name), ...brought]
  })
  return new Set(names)
}
const normalizeName = (name: string) => name.toLowerCase().replace(/[-_.]+/g, '-')

type How = {
  start?: string
  build?: string
  release?: string
  refusal?: string
  /** Packages without which it cannot be served. */
  needs?: string[]
  file?: string
  certain?: string[]
  guessed?: string[]
  warnings?: string[]
}

const SQLITE = /django\.db\.backends\.sqlite3/
const OTHER_DATABASE = /postgres|mysql|oracle|DATABASE_UR[IL]|dj_database_url|env\.db\(/i

function findDjango(app: Folder, packages: Set<string>): How | null {
  const manage = app.read('manage.py')
  if (manage === null) return null
  const settings = /DJANGO_SETTINGS_MODULE['"]\s*,\s*['"]([\w.]+)['"]/.exec(manage)?.[1]
  if (settings === undefined && !packages.has('django')) return null
  const wsgi = app
    .all()
    .filter(file => /^(?:[\w-]+\/)*wsgi\.py$/.test(file))
    .sort((a, b) => a.length - b.length)[0]
  const settingsFile = settings && `${settings.replaceAll('.', '/')}.py`
  const settingsText = (settingsFile && app.read(settingsFile)) || ''
  const collects = /^STATIC_ROOT\b/m.test(settingsText)
  // A file in the container of a release command would be gone when the application starts in its own.
  const isOnFile = SQLITE.test(settingsText) && !OTHER_DATABASE.test(settingsText)
  const migrate = 'python manage.py migrate --noinput'
  const serve = wsgi
    ? `gunicorn ${wsgi.slice(0, -3).replaceAll('/', '.')} --bind 0.0.0.0:$PORT`
    : 'python manage.py runserver 0.0.0.0:$PORT --noreload'
  return {
    file: 'manage.py',
    ...(isOnFile ? { start: `${migrate} && ${serve}` } : { start: serve, release: migrate }),
    ...(collects && { build: 'python manage.py collectstatic --noinput' }),
    needs: ['django', ...(wsgi ? ['gunicorn'] : [])],
    certain: ['manage.py makes it a Django project.'],
    guessed: [isOnFile ? 'Its migrations run before each start, as it uses SQLite.' : 'Its migrations run once.'],
    warnings:
      packages.has('whitenoise') || !collects
        ? []
        : ['Its static files are collected; a package such as whitenoise has to serve them.'],
  }
}

type Server = { package: string; calls: string[]; start(target: string, folder: string): string; needs: string[] }
const SERVERS: Server[] = [
  { package: 'fastapi', calls: ['FastAPI', 'fastapi.FastAPI'], start: asgi, needs: ['fastapi', 'uvicorn'] },
  { package: 'starlette', calls: ['Starlette'], start: asgi, needs: ['starlette', 'uvicorn'] },
  { package: 'quart', calls: ['Quart'], start: asgi, needs: ['quart', 'uvicorn'] },
  { package: 'python-fasthtml', calls: ['FastHTML', 'fast_app'], start: asgi, needs: ['python-fasthtml', 'uvicorn'] },
  { package: 'flask', calls: ['Flask', 'flask.Flask'], start: wsgi, needs: ['flask', 'gunicorn'] },
]

/** Calls that give the object of the framework whose package is listed. */
const FACTORIES = ['create_app', 'make_app', 'get_app', 'build_app', 'create_application']
const BY_FACTORY = 'a factory'

type Module = {
  /** Its variables, as in `app: FastAPI = FastAPI()`, by the package of the server that they get. */
  made: Map<string, string>
  definesFactory: boolean
  /** The first names of the modules that it imports. */
  imported: Set<string>
}
function readModule(text: string): Module {
  const made = new Map<string, string>()
  const imported = new Set<string>()
  for (const line of text.split('\n')) {
    const [, module] = /^(?:from|import) (\w+)/.exec(line) ?? []
    if (module !== undefined) imported.add(module)
    const at = line.indexOf('=')
    const [variable = ''] = line.slice(0, Math.max(0, at)).split(/[:,\s]/, 1)
    if (!/^\w+$/.test(variable)) continue
    const value = line.slice(at + 1).trimStart()
    const isOneOf = (calls: string[]) => calls.some(call => value.startsWith(`${call}(`))
    const by = SERVERS.find(({ calls }) => isOneOf(calls))?.package ?? (isOneOf(FACTORIES) ? BY_FACTORY : undefined)
    if (by !== undefined && !made.has(by)) made.set(by, variable)
  }
  return { made, imported, definesFactory: /^def create_app\(/m.test(text) }
}

function asgi(target: string, folder: string) {
  return `uvicorn ${target}${folder && ` --app-dir ${folder}`} --host 0.0.0.0 --port $PORT`
}
function wsgi(target: string, folder: string) {
  return `gunicorn ${target}${folder && ` --pythonpath ${folder}`} --bind 0.0.0.0:$PORT`
}

/** A module of the application that makes the server object of a framework. */
function findServer(app: Folder, packages: Set<string>): How | null {
  if (packages.has('streamlit')) {
    const file = ['streamlit_app.py', 'app.py', 'main.py', 'Home.py'].find(app.has)
    if (file)
      return {
        file,
        start: `streamlit run ${file} --server.port $PORT --server.address 0.0.0.0 --server.headless true`,
        certain: ['It is an application of Streamlit.'],
      }
  }
  const files = [...moduleFiles(app)]
  for (const { package: name, start, needs } of SERVERS)
    for (const file of files) {
      const read = app.parse(file, readModule)
      const variable = read?.made.get(name) ?? (packages.has(name) ? read?.made.get(BY_FACTORY) : undefined)
      const isFactory = variable === undefined && name === 'flask' && read?.definesFactory === true
      if (!read || (variable === undefined && !isFactory)) continue
      const folder = importFolder(app, file, read)
      const module = file.slice(folder === '' ? 0 : folder.length + 1).replace(/(?:\/__init__)?\.py$/, '')
      const target = `${module.replaceAll('/', '.')}:${variable ?? 'create_app()'}`
      const command = start(isFactory ? `'${target}'` : target, folder)
      return { file, start: command, needs, certain: [`\`${file}\` makes the ${name} application.`] }
    }
  return null
}

function* moduleFiles(app: Folder): Generator<string> {
  for (const parent of PARENTS)
    for (const module of MODULES) if (app.has(`${parent}${module}.py`)) yield `${parent}${module}.py`
  const packages = app.all().filter(file => /^(?:src\/)?\w+\/__init__\.py$/.test(file))
  yield* packages
  for (const file of packages)
    for (const module of MODULES) {
      const path = file.replace(/__init__\.py$/, `${module}.py`)
      if (app.has(path)) yield path
    }
}

/**
 * The folder that has to be on Python's path: `src` for a package in it, or that of a module which imports its
 * neighbours by their bare names. Empty: the application's root.
 */
function importFolder(app: Folder, file: string, { imported }: Module): string {
  const folder = file.slice(0, Math.max(0, file.lastIndexOf('/')))
  if (imported.has('src')) return ''
  if (folder.startsWith('src/') && !app.has('src/__init__.py')) return 'src'
  const [root, siblings] = [app.names(), folder === '' ? [] : app.folder(folder).names()].map(names => new Set(names))
  const isIn = (names: Set<string> | undefined, module: string) => names?.has(`${module}.py`) || names?.has(module)
  return [...imported].some(module => isIn(siblings, module) && !isIn(root, module)) ? folder : ''
}

const findModule = (app: Folder): string | null =>
  [...MODULES, 'bot', 'hello'].map(name => `${name}.py`).find(app.has) ?? null

function findProgram(app: Folder, module: string | null): How {
  if (module) return { file: module, start: `python ${module}`, guessed: [`\`${module}\` is its program.`] }
  const { scripts, name } = Object(readToml(app, 'pyproject.toml')?.project)
  const programs = Object.keys(Object(scripts))
  const script = programs.find(program => program === name) ?? programs[0]
  if (script !== undefined && /^[\w.-]+$/.test(script))
    return { start: script, guessed: [`The script \`${script}\` of pyproject.toml starts it.`] }
  return {}
}
