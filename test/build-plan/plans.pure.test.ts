// A plan for each kind of folder that people bring.
import { describe, expect, it, test } from 'vitest'
import { PlanRefused } from '../../src/build-plan/build-plan.ts'
import { type PlanOptions, planBuild } from '../../src/build-plan/plan-build.ts'
import { previewPlan } from '../../src/build-plan/plan-preview.ts'
import { openSource, type SourceFiles } from '../../src/build-plan/source-files.ts'

type Content = string | object
const filesOf = (files: Record<string, Content>): SourceFiles => ({
  paths: new Set(Object.keys(files)),
  read: path => {
    const content = files[path]
    return typeof content === 'object' ? JSON.stringify(content) : (content ?? null)
  },
})
const plan = (files: Record<string, Content>, options: Partial<PlanOptions> = {}) =>
  planBuild(filesOf(files), { buildsImages: false, ...options })
const refusal = (files: Record<string, Content>, options: Partial<PlanOptions> = {}) => {
  try {
    plan(files, options)
  } catch (error) {
    if (error instanceof PlanRefused) return error.message
    throw error
  }
  return expect.fail('it was planned')
}

const FOLDERS: Record<string, [files: Record<string, Content>, planned: object]> = {
  'npm with a lock file': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' }, engines: { node: '>=20' } },
      'package-lock.json': '{}',
    },
    {
      provider: 'node',
      tools: [{ name: 'node', version: '>=20', from: 'package.json' }],
      install: 'npm ci',
      build: null,
      start: 'npm start --silent',
    },
  ],
  'npm with a build': [
    { 'package.json': { scripts: { start: 'node d.js', build: 'tsc' }, devDependencies: { typescript: '6' } } },
    { install: 'npm install --include=dev', build: 'npm run build' },
  ],
  'npm with a lock file in step': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'package-lock.json': { packages: { '': { dependencies: { ms: '2' } } } },
    },
    { install: 'npm ci' },
  ],
  'npm with a lock file that lacks a dependency': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2', qs: '6' } },
      'package-lock.json': { packages: { '': { dependencies: { ms: '2' } } } },
    },
    { install: 'npm install', warnings: [expect.stringContaining('package-lock.json')] },
  ],
  'a package without dependencies': [
    { 'package.json': {}, 'server.js': '' },
    { install: null, start: 'node server.js' },
  ],
  'modules that the source brings': [
    { 'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } }, node_modules: '' },
    { install: null },
  ],
  pnpm: [
    {
      'package.json': { packageManager: 'pnpm@10.4.1', scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
    },
    {
      tools: [{ name: 'node' }, { name: 'pnpm', version: '10.4.1', from: 'package.json' }],
      install: 'pnpm install --frozen-lockfile',
      start: 'pnpm run start',
    },
  ],
  'pnpm without a version': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'pnpm-lock.yaml': "lockfileVersion: '6.0'\n",
    },
    { tools: [{ name: 'node' }, { name: 'pnpm', version: '8' }] },
  ],
  'Yarn 1': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'yarn.lock': '# yarn lockfile v1\n',
    },
    { tools: [{ name: 'node' }, { name: 'yarn', version: '1' }], install: 'yarn install --frozen-lockfile' },
  ],
  'Yarn 4': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'yarn.lock': '__metadata:\n  version: 8\n',
    },
    { tools: [{ name: 'node' }, { name: 'yarn', version: '4' }], install: 'yarn install --immutable' },
  ],
  'Yarn 2': [
    {
      'package.json': { scripts: { start: 'node s.js' }, dependencies: { ms: '2' } },
      'yarn.lock': '__metadata:\n  version: 4\n  cacheKey: 7\n',
    },
    { tools: [{ name: 'node' }, { name: 'yarn', version: '2' }], install: 'yarn install --immutable' },
  ],
  Bun: [
    { 'package.json': { dependencies: { ms: '2' } }, 'bun.lock': '{}', 'index.ts': '' },
    { tools: [{ name: 'node' }, { name: 'bun' }], install: 'bun install --frozen-lockfile', start: 'bun index.ts' },
  ],
  'a workspace with one application': [
    {
      'package.json': { workspaces: ['packages/*', 'apps/*'] },
      'package-lock.json': '{}',
      'packages/lib/package.json': { name: '@x/lib', scripts: { build: 'tsc' } },
      'packages/other/package.json': { name: '@x/other', scripts: { build: 'tsc' } },
      'apps/web/package.json': {
        name: 'web',
        scripts: { build: 'tsc', start: 'node .' },
        dependencies: { '@x/lib': '*' },
      },
    },
    {
      root: '',
      install_root: '',
      build: 'cd apps/web && (cd ../../packages/lib && npm run build) && npm run build',
      start: 'cd apps/web && npm start --silent',
      guessed: [expect.stringContaining('apps/web')],
    },
  ],
  'Next.js': [
    { 'package.json': { scripts: { build: 'next build', start: 'next start' }, dependencies: { next: '16' } } },
    { kind: 'web', build: 'npm run build', start: 'npm start --silent' },
  ],
  'Next.js as files': [
    {
      'package.json': { scripts: { build: 'next build', start: 'next start' }, dependencies: { next: '16' } },
      'next.config.ts': "export default { output: 'export' }",
    },
    { kind: 'static', start: null, site: { folder: 'out', fallback: '404.html' } },
  ],
  Nuxt: [
    { 'package.json': { scripts: { build: 'nuxt build' }, dependencies: { nuxt: '4' } } },
    { start: 'node .output/server/index.mjs' },
  ],
  SvelteKit: [
    {
      'package.json': { scripts: { build: 'vite build' }, devDependencies: { '@sveltejs/kit': '2', vite: '7' } },
    },
    { start: 'node build', env: { GCP_BUILDPACKS: '1' } },
  ],
  'Astro with a server': [
    { 'package.json': { scripts: { build: 'astro build' }, dependencies: { astro: '6', '@astrojs/node': '10' } } },
    { start: 'HOST=0.0.0.0 node ./dist/server/entry.mjs' },
  ],
  Vite: [
    {
      'package.json': { scripts: { dev: 'vite', build: 'vite build' }, devDependencies: { vite: '7' } },
      'index.html': '',
      'vite.config.js': "export default { build: { outDir: './site' } }",
    },
    { kind: 'static', site: { folder: 'site', fallback: 'index.html' } },
  ],
  'Vite with a server of its own': [
    { 'package.json': { scripts: { start: 'node server.js', build: 'vite build' }, devDependencies: { vite: '7' } } },
    { kind: 'web', start: 'npm start --silent' },
  ],
  'Create React App': [
    {
      'package.json': {
        scripts: { start: 'react-scripts start', build: 'react-scripts build' },
        dependencies: { 'react-scripts': '5' },
      },
    },
    { kind: 'static', site: { folder: 'build', fallback: 'index.html' } },
  ],
  Angular: [
    {
      'package.json': { scripts: { start: 'ng serve', build: 'ng build' }, dependencies: { '@angular/core': '20' } },
      'angular.json': {
        projects: { shop: { architect: { build: { builder: '@angular/build:application', options: {} } } } },
      },
    },
    { kind: 'static', site: { folder: 'dist/shop/browser', fallback: 'index.html' } },
  ],
  Flask: [
    { 'requirements.txt': 'Flask==3\n', 'app.py': 'from flask import Flask\napp = Flask(__name__)\n' },
    {
      provider: 'python',
      tools: [{ name: 'python' }, { name: 'uv' }],
      install:
        'uv venv .venv && uv pip install --python .venv -r requirements.txt && uv pip install --python .venv gunicorn',
      start: 'gunicorn app:app --bind 0.0.0.0:$PORT',
      programs: ['.venv/bin'],
    },
  ],
  FastAPI: [
    {
      'pyproject.toml':
        '[project]\nname = "a"\nrequires-python = ">=3.12"\ndependencies = ["fastapi[standard]>=0.115"]\n',
      'uv.lock': '',
      'app/main.py': 'from fastapi import FastAPI\napi = FastAPI(title="x")\n',
    },
    {
      tools: [{ name: 'python', version: '>=3.12', from: 'pyproject.toml' }, { name: 'uv' }],
      install: 'uv sync --locked --no-dev',
      start: 'uvicorn app.main:api --host 0.0.0.0 --port $PORT',
    },
  ],
  'FastAPI in a package of src': [
    {
      'pyproject.toml': '[project]\nname = "shop"\ndependencies = ["fastapi"]\n',
      'src/shop/__init__.py': '',
      'src/shop/main.py': 'from fastapi import FastAPI\nfrom shop.routes import router\napp = FastAPI()\n',
      'src/shop/routes.py': '',
    },
    { start: 'uvicorn shop.main:app --app-dir src --host 0.0.0.0 --port $PORT' },
  ],
  'FastAPI in src, imported from the root': [
    { 'requirements.txt': 'fastapi', 'src/main.py': 'from src.routes import router\napp = FastAPI()\n' },
    { start: 'uvicorn src.main:app --host 0.0.0.0 --port $PORT' },
  ],
  'Flask in a folder whose modules import each other': [
    {
      'requirements.txt': 'flask\ngunicorn\n',
      'backend/app.py': 'from models import db\napp = Flask(__name__)\n',
      'backend/models.py': '',
    },
    { start: 'gunicorn app:app --pythonpath backend --bind 0.0.0.0:$PORT' },
  ],
  'a module that calls the factory': [
    {
      'requirements.txt': 'flask\n',
      'run.py': 'from shop import create_app\napp = create_app("production")\n',
      'shop/__init__.py': 'def create_app(config):\n  return Flask(__name__)\n',
    },
    { start: 'gunicorn run:app --bind 0.0.0.0:$PORT' },
  ],
  Django: [
    {
      'requirements.txt': 'django\ngunicorn\nwhitenoise\n',
      'manage.py': "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')",
      'shop/settings.py':
        "STATIC_ROOT = 'static'\nDATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql'}}",
      'shop/wsgi.py': '',
    },
    {
      build: 'python manage.py collectstatic --noinput',
      release: 'python manage.py migrate --noinput',
      start: 'gunicorn shop.wsgi --bind 0.0.0.0:$PORT',
      warnings: [],
    },
  ],
  'Django with a database in a file': [
    {
      'requirements.txt': 'django\ngunicorn\n',
      'manage.py': "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')",
      'shop/settings.py': "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3'}}",
      'shop/wsgi.py': '',
    },
    { release: null, start: 'python manage.py migrate --noinput && gunicorn shop.wsgi --bind 0.0.0.0:$PORT' },
  ],
  Prisma: [
    {
      'package.json': { scripts: { start: 'node s.js' }, devDependencies: { prisma: '7' } },
      'prisma/schema.prisma': 'datasource db {\n  provider = "postgresql"\n}',
      'prisma/migrations/1/migration.sql': '',
    },
    { install: 'npm install --include=dev', release: 'prisma migrate deploy' },
  ],
  'Django with assets of npm': [
    {
      'requirements.txt': 'django\ngunicorn\n',
      'manage.py': "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')",
      'package.json': { scripts: { build: 'tailwindcss' }, devDependencies: { tailwindcss: '4' } },
    },
    { provider: 'python', install: expect.stringMatching(/npm install/), build: 'npm run build' },
  ],
  Poetry: [
    { 'poetry.lock': '', 'pyproject.toml': '[tool.poetry.dependencies]\npython = "^3.11"\n', 'main.py': '' },
    { tools: [{ name: 'python', version: '^3.11' }, { name: 'uv' }], start: 'python main.py' },
  ],
  Go: [
    { 'go.mod': 'module x\n\ngo 1.23\n', 'go.sum': '', 'main.go': 'package main\n' },
    {
      provider: 'go',
      tools: [{ name: 'go', version: '>=1.23', from: 'go.mod' }],
      install: 'go mod download',
      start: './.slipway/app',
    },
  ],
  'tools besides that of the language, in the file of a version manager': [
    {
      'go.mod': 'module x\n\ngo 1.23\n',
      'main.go': 'package main\n',
      'mise.toml': '[tools]\ngo = "1.25"\npython = "3.13"\nterraform = "1"\n',
    },
    {
      tools: [
        { name: 'go', version: '1.25', from: 'mise.toml' },
        { name: 'python', version: '3.13', from: 'mise.toml', isExtra: true },
      ],
    },
  ],
  'Go with several programs': [
    { 'go.mod': 'module x\n', 'cmd/tool/main.go': 'package main\n', 'cmd/server/main.go': 'package main\n' },
    { build: 'go build -ldflags="-s -w" -o .slipway/app ./cmd/server', guessed: [expect.anything()] },
  ],
  Rocket: [
    { 'Cargo.toml': '[package]\nname = "hello"\n[dependencies]\nrocket = "0.5"\n', 'src/main.rs': '' },
    { start: 'ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT ./.slipway/app' },
  ],
  Rust: [
    { 'Cargo.toml': '[package]\nname = "hello"\nrust-version = "1.80"\n', 'Cargo.lock': '', 'src/main.rs': '' },
    {
      provider: 'rust',
      tools: [{ name: 'rust', version: '>=1.80', from: 'Cargo.toml' }],
      install: 'cargo fetch --locked',
      build: expect.stringContaining('--bin hello '),
    },
  ],
  'a Cargo workspace': [
    {
      'Cargo.toml': '[workspace]\nmembers = ["crates/*"]\n',
      'crates/lib/Cargo.toml': '[package]\nname = "lib"\n',
      'crates/lib/src/lib.rs': '',
      'crates/web/Cargo.toml': '[package]\nname = "web"\n',
      'crates/web/src/main.rs': '',
    },
    { build: expect.stringContaining('--bin web ') },
  ],
  'Maven with Spring Boot': [
    { 'pom.xml': '<project><java.version>21</java.version><a>spring-boot-starter</a></project>', mvnw: '' },
    { tools: [{ name: 'java', version: '>=21' }], start: expect.stringContaining('-Dserver.port=$PORT') },
  ],
  'Ruby of a lock file': [
    { Gemfile: "gem 'rack'\n", 'Gemfile.lock': 'RUBY VERSION\n   ruby 3.1.2p20\n', 'app.rb': '' },
    { tools: [{ name: 'ruby', version: '3.1.2', from: 'Gemfile.lock' }] },
  ],
  Rails: [
    { Gemfile: "ruby '3.4.1'\ngem 'rails'\ngem 'propshaft'\n", 'config/application.rb': '', 'config.ru': '' },
    {
      tools: [{ name: 'ruby', version: '3.4.1', from: 'Gemfile' }],
      build: 'SECRET_KEY_BASE_DUMMY=1 bundle exec rails assets:precompile',
      start: 'bundle exec rails server --binding 0.0.0.0 --port $PORT',
    },
  ],
  Deno: [{ 'deno.json': '{"tasks": {"start": "deno run main.ts"}}' }, { provider: 'deno', start: 'deno task start' }],
  'a shell script': [{ 'start.sh': '#!/usr/bin/env bash\n' }, { provider: 'shell', start: 'bash start.sh' }],
  'static files': [
    { 'index.html': '', '200.html': '' },
    { provider: 'static', kind: 'static', site: { folder: '', fallback: '200.html' } },
  ],
  'a Procfile': [
    { Procfile: 'web: gunicorn a:b\nworker: python w.py\n', 'requirements.txt': 'gunicorn\n' },
    {
      provider: 'python',
      kind: 'web',
      start: 'gunicorn a:b',
      release: null,
      processes: [{ name: 'worker', command: 'python w.py' }],
      warnings: [],
    },
  ],
  'a Procfile with a release command and without a web process': [
    { Procfile: 'Release: npm run migrate\nworker: node w.js\nOver_Night: node n.js\n9: x\n', 'package.json': {} },
    {
      kind: 'worker',
      start: null,
      release: 'npm run migrate',
      processes: [
        { name: 'worker', command: 'node w.js' },
        { name: 'over-night', command: 'node n.js' },
      ],
      warnings: [expect.stringContaining('`9`')],
    },
  ],
}

describe('a plan', () => {
  for (const [name, [files, planned]] of Object.entries(FOLDERS))
    test(name, () => {
      expect(plan(files)).toMatchObject(planned)
    })
})

describe('a refusal names the file that was seen', () => {
  test.each([
    ['a Dockerfile', { Dockerfile: 'FROM x' }, /`Dockerfile`.*container or kubernetes/],
    ['a compose file', { 'compose.yaml': '' }, /`compose.yaml`/],
    ['a file without graphs', { 'langgraph.json': {}, 'a.py': '', 'requirements.txt': '' }, /`langgraph.json`/],
    ['a file of graphs that is no JSON', { 'langgraph.json': '{', 'package.json': {} }, /`langgraph.json`/],
    ['a package that only pnpm reads', { 'package.json5': '{}', 'main.js': '' }, /`package.json5`/],
    ['PHP', { 'composer.json': {}, 'package.json': { devDependencies: { vite: '7' } } }, /PHP/],
    ['.NET', { 'shop.csproj': '' }, /\.NET/],
    ['Elixir', { 'mix.exs': '' }, /Elixir/],
    ['a package without a program', { 'package.json': { name: 'x' } }, /`start` script/],
    ['a Python folder without a program', { 'requirements.txt': '' }, /Procfile/],
    ['a Go library', { 'go.mod': 'module x\n', 'x.go': 'package x\n' }, /package main/],
    ['a crate without a program', { 'Cargo.toml': '[package]\nname = "x"\n', 'src/lib.rs': '' }, /src\/main.rs/],
    ['other files', { 'notes.txt': '', 'b/c.txt': '' }, /`b`, `notes.txt`/],
    ['no files', {}, /no files/],
    [
      'two applications in a workspace',
      {
        'package.json': { workspaces: ['*'] },
        'a/package.json': { scripts: { start: 'x' } },
        'b/package.json': { scripts: { start: 'x' } },
      },
      /`a`, `b`/,
    ],
  ] as const)('%s', (_, files, sentence) => {
    expect(refusal(files as Record<string, Content>)).toMatch(sentence)
  })
})

it('a preview says what an agent without images does with a Dockerfile', () => {
  const preview = (files: Record<string, Content>) => {
    const outcome = previewPlan(filesOf(files), {})
    return 'plan' in outcome ? outcome.plan.warnings : expect.fail('it was refused')
  }
  expect(preview({ Dockerfile: 'FROM x', 'main.py': '' })).toEqual([expect.stringContaining('starts `python main.py`')])
  expect(preview({ Dockerfile: 'FROM x' })).toEqual([expect.stringContaining('cannot build a Dockerfile')])
})

describe('the order of what decides', () => {
  const python = { 'requirements.txt': 'flask\n', 'app.py': 'app = Flask(1)' }

  it('a Dockerfile is used by an engine that builds images, and passed over with a warning by another', () => {
    const files = { ...python, Dockerfile: 'FROM x' }
    expect(plan(files, { buildsImages: true }).provider).toBe('dockerfile')
    const { provider, warnings } = plan(files)
    expect([provider, warnings]).toEqual(['python', [expect.stringContaining('`Dockerfile`')]])
  })

  it('the configuration file names processes, and switches a release command off', () => {
    const files = { 'main.js': '', Procfile: 'release: migrate\nweb: node main.js\nworker: a\nmail: b\n' }
    const worker = { name: 'worker', command: 'c', scale: 2 }
    const configuration = { path: 'slipway.json', start_command: null, release_command: '', processes: [worker] }
    expect(plan(files, { configuration })).toMatchObject({
      release: null,
      processes: [{ name: 'mail', command: 'b' }, worker],
    })
    expect(plan(files, { configuration: { ...configuration, start_command: '' } })).toMatchObject({ kind: 'worker' })
    const alone = { 'main.js': '' }
    const nothing = { path: 'slipway.json', start_command: '', processes: [] }
    expect(refusal(alone, { configuration: nothing })).toContain('processes')
    const site = { folder: '', fallback: null }
    expect(refusal(alone, { configuration: { ...configuration, site } })).toContain('processes')
    const disks = [{ name: 'media', path: '/app/media', storage_gi: 1 }]
    expect(refusal({ 'index.html': '' }, { configuration: { path: null, start_command: null, disks } })).toContain(
      'disks',
    )
  })

  it('the configuration file wins over a Procfile, and that over what is found', () => {
    const files = { ...python, Procfile: 'web: from-procfile' }
    expect(plan(files).start).toBe('from-procfile')
    const configuration = { path: 'slipway.json', start_command: 'mine', sleep_path: '/sleep' }
    expect(plan(files, { configuration })).toMatchObject({ start: 'mine', sleep_path: '/sleep' })
  })

  it('a start command makes any folder an application, and a site one with a server', () => {
    const configuration = { path: 'slipway.json', start_command: './run' }
    expect(plan({ 'x.bin': '' }, { configuration })).toMatchObject({ provider: 'command', start: './run', tools: [] })
    expect(plan({ 'index.html': '' }, { configuration })).toMatchObject({ kind: 'web', site: null, start: './run' })
    expect(plan({ 'langgraph.json': '{}', ...python }, { configuration }).provider).toBe('python')
  })

  it('commands of the deployment win, and an empty one runs nothing', () => {
    expect(plan(python, { install_command: 'x', build_command: 'y' })).toMatchObject({ install: 'x', build: 'y' })
    expect(plan(python, { install_command: '' }).install).toBeNull()
  })

  it('the root is what is given, or else the folder of the configuration file', () => {
    const files = { 'web/index.html': '', 'api/app.py': 'app = Flask(1)', 'api/requirements.txt': 'flask' }
    expect(plan(files, { root: './web/' })).toMatchObject({ root: 'web', kind: 'static' })
    const configuration = { path: 'api/slipway.json', start_command: null }
    expect(plan(files, { configuration })).toMatchObject({ root: 'api', install_root: 'api', provider: 'python' })
    expect(refusal(files, { root: '../none' })).toMatch(/`none`/)
  })

  it('installs at the nearest lock file above the root, and runs in the root', () => {
    const files = {
      'package.json': { workspaces: ['apps/*'] },
      'yarn.lock': '# yarn lockfile v1\n',
      'apps/web/package.json': { name: 'web', scripts: { start: 'node .' }, dependencies: { ms: '2' } },
      'apps/api/package.json': { name: 'api', scripts: { start: 'node .' } },
    }
    expect(plan(files, { root: 'apps/web' })).toMatchObject({
      root: 'apps/web',
      install_root: '',
      programs: ['node_modules/.bin', '../../node_modules/.bin'],
    })
  })

  it('a source of very many packages costs a bounded number of reads', () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}/package.json`, { name: `p${i}` }]))
    const files = filesOf({ ...many, 'package.json': { workspaces: ['*'] }, 'start.sh': '' })
    let reads = 0
    const read = (path: string) => {
      reads++
      return files.read(path)
    }
    expect(planBuild({ paths: files.paths, read }, { buildsImages: false }).provider).toBe('shell')
    expect(reads).toBeLessThanOrEqual(2_000)
  })

  it('a workspace of very many patterns and packages is planned soon, or refused', () => {
    const paths = Array.from({ length: 20_000 }, (_, i) => `packages/p${i}`)
    const packages = Object.fromEntries(paths.map(path => [`${path}/package.json`, '{}']))
    const app = { 'packages/p0/package.json': { scripts: { start: 'node .' } } }
    expect(plan({ ...packages, ...app, 'package.json': { workspaces: paths } }).guessed[0]).toContain('packages/p0')
    const globs = paths.map(path => `${path}/*`)
    expect(refusal({ ...packages, 'package.json': { workspaces: globs } })).toMatch(/20000 patterns/)
    for (const pattern of ['**/**/**/a', `${'*a'.repeat(9)}`])
      expect(refusal({ ...packages, 'package.json': { workspaces: [pattern] } })).toMatch(/too many `\*`/)
  })

  it('a file is parsed once, and one that nobody writes by hand is not', () => {
    const parsed: string[] = []
    const read = (path: string) => 'a'.repeat(path.endsWith('large') ? 600_000 : 300_000)
    const app = openSource({ paths: new Set(), read }, 'b')
    const parse = (name: string) => app.parse(name, text => parsed.push(text.slice(0, 1)))
    expect(['c', 'c', 'large'].map(parse)).toEqual([1, 1, null])
    expect(app.outwards()[0]!.parse('c', () => 7)).toBe(1)
    // All of them together are bounded.
    const all = Array.from({ length: 20 }, (_, i) => parse(`${i}`))
    expect(all.filter(one => one !== null)).toHaveLength(12)
  })

  it('damaged files say nothing', () => {
    const files = { 'package.json': '[1, 2', 'pyproject.toml': '= = =', 'Cargo.toml': ']', 'start.sh': '' }
    expect(plan(files).provider).toBe('shell')
  })
})
