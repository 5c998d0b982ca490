// Plans of graph applications: the form of langgraph.json, what is installed, and what a plan says in its place.
import { describe, expect, it, test } from 'vitest'
import { PlanRefused } from '../../src/build-plan/build-plan.ts'
import { type PlanOptions, planBuild } from '../../src/build-plan/plan-build.ts'
import { previewPlan } from '../../src/build-plan/plan-preview.ts'
import { listNeededFolders, readGraphEnvironment } from '../../src/build-plan/providers/graphs/graph-file.ts'

type Files = Record<string, string | object>
const filesOf = (files: Files) => ({
  paths: new Set(Object.keys(files)),
  read: (path: string) => {
    const content = files[path]
    return typeof content === 'object' ? JSON.stringify(content) : (content ?? null)
  },
})
const plan = (files: Files, options: Partial<PlanOptions> = {}) =>
  planBuild(filesOf(files), { buildsImages: false, ...options })
const at = (path: string) => ({ configuration: { path, start_command: null } })
function refusal(files: Files): string {
  try {
    plan(files)
  } catch (error) {
    if (error instanceof PlanRefused) return error.message
    throw error
  }
  return expect.fail('it was planned')
}

const RUNTIME = '-r "$GRAPHS_RUNTIME/python/requirements.txt"'
const PYTHON = { graphs: { agent: './agent.py:graph' }, dependencies: ['.'] }

describe('a graph application', () => {
  it('in JavaScript is installed by its lock file, in the folder of the lock', () => {
    const files = {
      'langgraph.json': { graphs: { agent: './src/agent.ts:graph', other: { path: './o.mjs:g' } }, node_version: '22' },
      'src/agent.ts': '',
      'o.mjs': '',
      'package.json': { dependencies: { '@langchain/langgraph': '1' } },
      'package-lock.json': '{}',
    }
    expect(plan(files)).toMatchObject({
      provider: 'graphs',
      kind: 'graphs',
      graph_file: 'langgraph.json',
      install: 'npm ci --include=dev',
      start: 'slipway-graphs langgraph.json',
      health_path: '/ok',
      sleep_path: '/internal/sleep',
      tools: [{ name: 'node', version: '>=22' }, { name: 'graphs-javascript' }],
    })
  })

  it('in Python installs packages, requirements and folders in the order of the reference', () => {
    const file = {
      graphs: { a: './src/a.py:g', b: 'installed.module:make' },
      dependencies: ['langchain-openai>=1', './src', '.', '../lib', '../plain'],
      python_version: '3.12',
    }
    const files = {
      'apps/agent/langgraph.json': file,
      'apps/agent/pyproject.toml': '',
      'apps/agent/src/a.py': '',
      'apps/agent/src/requirements.txt': '',
      'apps/lib/setup.py': '',
      'apps/plain/__init__.py': '',
    }
    const planned = plan(files, at('apps/agent/langgraph.json'))
    expect(planned).toMatchObject({ root: 'apps/agent', install_root: 'apps/agent', programs: ['.venv/bin'] })
    expect(planned.tools).toContainEqual({ name: 'python', version: '3.12', from: 'langgraph.json' })
    expect(planned.install).toBe(
      `uv venv .venv && uv pip install --python .venv ${RUNTIME} 'langchain-openai>=1' -r ./src/requirements.txt ` +
        `-e . -e ../lib && printf '%s\\n' "$PWD"/./src "$PWD"/../plain/.. > ` +
        '"$(echo .venv/lib/python3*/site-packages)/graphs.pth"',
    )
  })

  it('uses pip where the file asks for it, and uv for a project of uv', () => {
    const files = { 'agent.py': '', 'pyproject.toml': '', 'uv.lock': '' }
    expect(plan({ ...files, 'langgraph.json': { ...PYTHON, pip_config_file: 'pip.conf' } }).install).toBe(
      `uv venv --seed .venv && PIP_CONFIG_FILE=pip.conf .venv/bin/python -m pip install ${RUNTIME} -e .`,
    )
    const { graphs } = PYTHON
    const source = { kind: 'uv', root: '.', package: 'agents' }
    expect(plan({ ...files, 'langgraph.json': { graphs, source, python_version: '3.13' } }).install).toBe(
      'UV_PROJECT_ENVIRONMENT="$PWD/.venv" uv sync --frozen --no-dev --project . --package agents && ' +
        `uv pip install --python .venv ${RUNTIME}`,
    )
  })

  it('in both languages installs both', () => {
    const files = {
      'a/langgraph.json': { graphs: { p: './p.py:g', j: './j.js:g' }, dependencies: ['.'] },
      'a/p.py': '',
      'a/j.js': '',
      'a/package.json': {},
      'package-lock.json': '',
    }
    expect(plan(files, at('a/langgraph.json')).install).toMatch(/^\(cd \.\. && npm ci --include=dev\) && uv venv/)
  })

  it('is found by its name in the root, or by its content at the path of the configuration', () => {
    const files = { 'graph.config.json': PYTHON, 'agent.py': '', 'requirements.txt': '' }
    expect(plan(files, at('graph.config.json')).start).toBe('slipway-graphs graph.config.json')
    expect(plan({ ...files, 'langgraph.json': PYTHON }, { root: '' }).kind).toBe('graphs')
    const own = { 'langgraph.json': PYTHON, 'agent.py': '' }
    expect(plan(own, { configuration: { path: 'slipway.json', start_command: 'mine' } })).toMatchObject({
      kind: 'web',
      graph_file: null,
      start: 'mine',
    })
    const preview = previewPlan(filesOf(files), { platform_config_path: 'graph.config.json' })
    expect('plan' in preview && preview.plan.kind).toBe('graphs')
  })

  it('comes before a Dockerfile, which the plan says', () => {
    const planned = plan({ 'langgraph.json': PYTHON, 'agent.py': '', Dockerfile: 'FROM x' }, { buildsImages: true })
    expect(planned).toMatchObject({ provider: 'graphs', warnings: [expect.stringContaining('`Dockerfile`')] })
  })
})

describe('a langgraph.json', () => {
  it('with an authentication and routes in another language has the packages of both', () => {
    const file = {
      ...PYTHON,
      auth: { path: './auth.mjs:auth' },
      http: { app: './routes.mjs:app' },
      store: { index: { dims: 2, embed: './agent.py:embed' } },
      webhooks: { headers: { Key: 'x' }, url: { allowed_domains: ['hooks.example.com'] } },
    }
    const files = { 'agent.py': '', 'auth.mjs': '', 'routes.mjs': '', 'package.json': '{}' }
    const planned = plan({ 'langgraph.json': file, ...files })
    expect(planned.tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['python', 'graphs-javascript']))
    expect(planned.certain[0]).toContain('Python and JavaScript')
  })

  it('is refused with all its faults at once, by the ids of the graphs', () => {
    const file = {
      graphs: { gone: './gone.py:g', nameless: './agent.py', outside: '../../x.py:g', odd: 7, other: './notes.txt:g' },
      dependencies: ['./agents', '.', 'git+https://user:token@example.com/x.git'],
      python_version: '3.10',
      image_distro: 'bullseye',
      http: { app: './app.py:app' },
    }
    const message = refusal({ 'langgraph.json': file, 'agent.py': '', 'notes.txt': '' })
    for (const named of [
      'graph `gone`',
      'graph `nameless`',
      'graph `outside`',
      'graph `odd`',
      'graph `other`',
      'dependency `./agents`',
      'credentials',
      '`python_version`',
      '`image_distro`',
      '`http.app`',
    ])
      expect(message).toContain(named)
    expect(message).not.toContain('token@')
  })

  test.each([
    ['nothing to install', { graphs: { a: './agent.py:g' } }, '`dependencies`'],
    ['a graph in no dependency', { graphs: { a: './agent.py:g' }, dependencies: ['./lib'] }, 'graph `a`'],
    ['a project without a lock', { graphs: { a: './agent.py:g' }, source: { kind: 'uv' } }, 'uv.lock'],
    ['both ways to install', { ...PYTHON, source: { kind: 'uv' } }, '`source`'],
    ['no graph', { graphs: {} }, '`graphs`'],
    ['graphs that are no object', { graphs: 'x' }, '`graphs` must be an object'],
    [
      'an option of pip',
      { ...PYTHON, dependencies: ['.', '--index-url=https://other.example'] },
      'dependency `--index',
    ],
    ['a variable that no system takes', { ...PYTHON, env: { 'A=B': 'x' } }, '`env`'],
    ['an order of runs', { ...PYTHON, priority: { path: './p.py:p' } }, '`priority`'],
    ['a user interface', { ...PYTHON, ui: { agent: './ui.tsx' } }, '`ui`'],
    [
      'a policy that is not known',
      { ...PYTHON, webhooks: { url: { allowed_hosts: [] } } },
      'webhooks.url.allowed_hosts',
    ],
    ['headers for any URL', { ...PYTHON, webhooks: { headers: { Key: 'x' } } }, 'webhooks.url.allowed_domains'],
    ['an authentication that is not there', { ...PYTHON, auth: { path: './gone.py:auth' } }, '`auth.path`'],
    ['an authentication without a path', { ...PYTHON, auth: { disable_studio_auth: true } }, '`auth`'],
    ['embeddings of another provider', { ...PYTHON, store: { index: { dims: 2, embed: 'x:y' } } }, 'openai:<model>'],
    [
      'an index of vectors that are too long',
      { ...PYTHON, store: { index: { dims: 16_001, embed: 'openai:x' } } },
      'dims',
    ],
    ['an index without fields', { ...PYTHON, store: { index: { dims: 2, embed: 'openai:x', fields: [] } } }, 'fields'],
    ['a pattern that is none', { ...PYTHON, http: { cors: { allow_origin_regex: '(' } } }, 'allow_origin_regex'],
    ['a setting of the saver that is not known', { ...PYTHON, checkpointer: { serde: { pickle: true } } }, 'pickle'],
    ['an index without a size', { ...PYTHON, store: { index: { embed: 'openai:small' } } }, '`dims`'],
  ])('is refused with %s', (_, file, named) => {
    expect(refusal({ 'langgraph.json': file, 'agent.py': '', 'lib/x.py': '' })).toContain(named)
  })

  it('has each key that is not done named in the plan, and one that is not known', () => {
    const file = {
      ...PYTHON,
      base_image: 'x/y:1',
      api_version: '0.8',
      dockerfile_lines: ['RUN true'],
      keep_pkg_tools: true,
      dependancies: [],
      store: { ttl: { default_ttl: 60 } },
      checkpointer: { serde: { allowed_msgpack_modules: [['mine', 'State']], pickle_fallback: false } },
      http: { disable_mcp: true, mount_prefix: '/graphs', cors: { allow_origin_regex: 'https://.*' } },
    }
    const { warnings, health_path, sleep_path } = plan({ 'langgraph.json': file, 'agent.py': '' })
    expect([health_path, sleep_path]).toEqual(['/graphs/ok', '/graphs/internal/sleep'])
    const named = warnings.map(warning => /`(.*?)`/.exec(warning)?.[1])
    expect(named).toEqual(['base_image', 'api_version', 'dockerfile_lines', 'keep_pkg_tools', 'dependancies'])
  })

  it('is planned soon, or refused, if it is hostile', () => {
    const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`graf${i}`, './agent.py:g']))
    expect(refusal({ 'langgraph.json': { ...PYTHON, graphs: many }, 'agent.py': '' })).toContain('`graphs`')
    const long = 'x'.repeat(100_000)
    const faulty = { graphs: { [long]: './agent.py:g', a: `./${long}.py:g` }, dependencies: ['.', `./${long}`] }
    expect(refusal({ 'langgraph.json': faulty, 'agent.py': '' }).length).toBeLessThan(2000)
    const dependencies = ['.', `./agent${'/'.repeat(500_000)}`]
    const { warnings } = plan({
      'langgraph.json': { ...PYTHON, ...many, dependencies },
      'agent.py': '',
      'agent/a.py': '',
    })
    expect(warnings.length).toBeLessThan(30)
  })

  it('says how many variables it has, and which the platform sets', () => {
    const env = { OPENAI_API_KEY: 'k', PORT: '1', LANGSMITH_API_KEY: 'x', EMPTY: '' }
    const { certain, env: planned } = plan({ 'langgraph.json': { ...PYTHON, env }, 'agent.py': '' })
    expect(certain.join(' ')).toMatch(/a variable.*PORT, LANGSMITH_API_KEY/)
    // Plans are shown to everyone who may read the deployment.
    expect(JSON.stringify(planned)).not.toContain('OPENAI')
    const files = filesOf({
      'a/g.json': { env: '../.env' },
      '.env': 'A=1\nLANGSMITH_DEPLOYMENT_NAME=x\nexport B="2"\n',
    })
    expect(readGraphEnvironment(files, 'a/g.json')).toEqual({
      file: '.env',
      variables: { A: '1', B: '2' },
      reserved: ['LANGSMITH_DEPLOYMENT_NAME'],
    })
  })

  it('names the folders that an archive needs', () => {
    expect(listNeededFolders('{"dependencies": [".", "x", "../../libs/shared"]}')).toEqual([
      '.',
      '.',
      '../../libs/shared',
    ])
    expect(listNeededFolders('{"source": {"root": ".."}}')).toEqual(['.', '..'])
  })
})
