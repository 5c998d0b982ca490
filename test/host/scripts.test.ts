// The deployment scripts, with fakes on PATH for the programs that need an account.
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')
const toml = readFileSync(join(root, 'wrangler.toml'), 'utf8')
const [worker, bucket] = [/^name = "(.+)"/m, /^bucket_name = "(.+)"/m].map(named => toml.match(named)![1]!)

type Call = {
  argv: string[]
  line: string
  stdin: string
  secrets: { path: string; mode: string; text: string } | undefined
  databaseUrl: string
}

const settings = {
  NEON_API_KEY: 'neon-hunter2',
  NEON_PROJECT_ID: 'calm-sea-1',
  CLOUDFLARE_API_TOKEN: 'cloudflare-hunter2',
  CLOUDFLARE_ACCOUNT_ID: 'acme',
  SEALING_KEYS: 'first:hunter2',
  WORKERS_SUBDOMAIN: 'acme',
}
const production = {
  ...settings,
  DATABASE_OWNER_URL: 'postgresql://owner:hunter2@production.test/app',
  DATABASE_URL: 'postgresql://app:hunter2@production.test/app',
  DATABASE_SYSTEM_URL: 'postgresql://system:hunter2@production.test/app',
  PUBLIC_URL: 'https://slipway.production.test',
}

let here: string

beforeEach(() => {
  here = mkdtempSync(join(tmpdir(), 'scripts-'))
  const program = join(import.meta.dirname, 'fixtures/deploy-program.sh')
  for (const tool of ['npx', 'npm', 'gh', 'wrangler', 'neonctl']) symlinkSync(program, join(here, tool))
  mkdirSync(join(here, 'comments'))
  writeFileSync(join(here, 'branches'), 'main\n')
})
afterEach(() => rmSync(here, { recursive: true, force: true }))

const readLines = (name: string) =>
  existsSync(join(here, name)) ? readFileSync(join(here, name), 'utf8').trim().split('\n') : []
const state = () => ({
  branches: readLines('branches'),
  buckets: readLines('buckets'),
  comments: readdirSync(join(here, 'comments'))
    .sort()
    .map(name => readFileSync(join(here, 'comments', name), 'utf8')),
})
/** Changes how the programs answer. */
const mark = (name: 'noPreviews' | 'overtaken') => writeFileSync(join(here, name), '')

function readCalls(file: string): Call[] {
  const fields = existsSync(file) ? readFileSync(file, 'utf8').split('\0').slice(0, -1) : []
  const calls: Call[] = []
  while (fields.length > 0) {
    const argv = fields.splice(0, Number(fields.shift()))
    const [stdin, path, mode, text, databaseUrl] = fields.splice(0, 5) as [string, string, string, string, string]
    calls.push({ argv, line: argv.join(' '), stdin, secrets: path ? { path, mode, text } : undefined, databaseUrl })
  }
  return calls
}

function run(script: string, args: string[], env: Record<string, string> = settings) {
  const calls = join(here, 'calls')
  rmSync(calls, { force: true })
  const { status, stdout, stderr } = spawnSync(join(root, 'scripts', script), args, {
    cwd: here,
    encoding: 'utf8',
    env: { HERE: here, WORKER: worker, TMPDIR: here, HOME: here, PATH: here + delimiter + process.env.PATH, ...env },
  })
  return { status, stdout, stderr, calls: readCalls(calls) }
}

const preview = (...args: string[]) => run('preview.sh', args)
const argument = (calls: Call[], flag: string) => {
  const call = calls.find(({ argv }) => argv.includes(flag))
  return call?.argv[call.argv.indexOf(flag) + 1]
}
/** Uses a dry run, which starts no programs. */
const aliasOf = (branch: string) => preview('--dry-run', 'up', branch).stdout.match(/--preview-alias (\S+)/)![1]!

const STEPS =
  'build:dashboard|bucket create|branches \\w+|connection-string|db:migrate|db:logins|versions upload|deploy'
/** A word or two for each call. */
const summarize = (calls: Call[]) =>
  calls.map(({ line }) => line.match(new RegExp(`${STEPS}|gh \\w+ ?[a-z]*`))![0].trim())

describe('a branch name becomes an alias', () => {
  it.each([
    ['main', /^main-/],
    ['feature/Ünï/../$(x)', /^feature-n-x-/],
    ['$(touch pwned)', /^touch-pwned-/],
    ['`touch pwned`;touch pwned', /^touch-pwned-touch-pwned-/],
    ['it\'s "quoted" & <b>', /^it-s-quoted-b-/],
    ['123-fix', /^b123-fix-/],
    ['--dry-run', /^dry-run-/],
    ['---', /^b-/],
    ['日本語', /^b-/],
    ['x'.repeat(250), /^x+-/],
    [`${'x-'.repeat(100)}`, /^[x-]+x-/],
    ['a\nb', /^a-b-/],
  ])('%j', (branch, start) => {
    const { status, calls } = preview('up', branch)
    expect(status).toBe(0)
    const alias = argument(calls, '--preview-alias')!
    expect(alias).toMatch(start)
    expect(alias).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*-[0-9a-f]{8}$/)
    expect(`${alias}-${worker}`.length).toBeLessThanOrEqual(63)
    expect(argument(calls, '--name')).toBe(`preview-${alias}`)
    expect(existsSync(join(here, 'pwned'))).toBe(false)
  })

  it('uses the full length of a DNS label, and no more', () => {
    expect(`${aliasOf('x'.repeat(250))}-${worker}`.length).toBe(63)
  })

  it('differs for branch names that are equal after they are shortened and cleaned', () => {
    const branches = ['feature/a', 'feature-a', 'Feature/a', 'feature/ä', `${'x'.repeat(200)}1`, `${'x'.repeat(200)}2`]
    expect(new Set(branches.map(aliasOf)).size).toBe(branches.length)
  })
})

describe('preview.sh up', () => {
  const steps = [
    'build:dashboard',
    'bucket create',
    'branches get',
    'branches create',
    'connection-string',
    'db:migrate',
    'db:logins',
    'versions upload',
  ]

  it('creates the database, migrates it, uploads the Worker, and prints the address once', () => {
    const { status, stdout, calls } = preview('up', 'topic', '7')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual([...steps, 'gh pr view', 'gh pr comment'])
    const url = `https://${argument(calls, '--preview-alias')}-${worker}.acme.workers.dev`
    expect(stdout.split('\n')).toContain(url)
    expect(state().comments).toEqual([expect.stringContaining(url)])
  })

  it('passes the logins of the migrated database to the Worker in a private file, which it removes', () => {
    const { calls } = preview('up', 'topic')
    const migrated = calls.find(({ line }) => line === 'npm run db:migrate')!.databaseUrl
    const { secrets } = calls.find(call => call.secrets)!
    expect(migrated).toContain(`@preview-${argument(calls, '--preview-alias')}.neon.test`)
    expect(JSON.parse(secrets!.text)).toEqual({
      DATABASE_URL: 'postgresql://app:hunter2@x.test',
      DATABASE_SYSTEM_URL: 'postgresql://system:hunter2@x.test',
      SEALING_KEYS: settings.SEALING_KEYS,
      PUBLIC_URL: `https://${argument(calls, '--preview-alias')}-${worker}.acme.workers.dev`,
    })
    expect(secrets!.mode).toMatch(/^-rw-------/)
    expect(existsSync(secrets!.path)).toBe(false)
  })

  it('reuses the database the second time, and edits its comment', () => {
    preview('up', 'topic', '7')
    const { status, calls } = preview('up', 'topic', '7')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual([...steps.filter(step => step !== 'branches create'), 'gh pr view', 'gh api'])
    expect(state().branches).toHaveLength(2)
    expect(state().comments).toHaveLength(1)
  })

  it('needs no pull request', () => {
    const { status, calls } = preview('up', 'topic')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(steps)
  })

  it('uses the parent branch and the role of the settings', () => {
    const { calls } = run('preview.sh', ['up', 'topic'], {
      ...settings,
      NEON_PARENT: 'staging',
      NEON_ROLE: 'app owner',
      NEON_DATABASE: 'app',
    })
    expect(argument(calls, '--parent')).toBe('staging')
    expect(argument(calls, '--role-name')).toBe('app owner')
    expect(argument(calls, '--database-name')).toBe('app')
  })

  it.each([
    'build:dashboard',
    'bucket create',
    'branches get',
    'branches create',
    'connection-string',
    'db:migrate',
    'db:logins',
    'versions upload',
  ])('stops when %s fails', step => {
    const { status, calls } = run('preview.sh', ['up', 'topic', '7'], { ...settings, FAIL: step })
    expect(status).toBe(1)
    expect(summarize(calls)).toEqual(steps.slice(0, steps.indexOf(step) + 1))
    expect(readdirSync(here).filter(name => name.startsWith('tmp'))).toEqual([])
  })

  it('fails without writing a comment when the version has no address', () => {
    mark('noPreviews')
    const { status } = preview('up', 'topic', '7')
    expect(status).toBe(1)
    expect(state().comments).toEqual([])
  })
})

describe('preview.sh down', () => {
  it('removes the database and updates the existing comment', () => {
    preview('up', 'topic', '7')
    const [before] = state().comments
    const { status, calls } = preview('down', 'topic', '7')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(['branches get', 'branches delete', 'gh pr view', 'gh api'])
    expect(state().branches).toEqual(['main'])
    expect(state().comments).toHaveLength(1)
    expect(state().comments[0]).not.toBe(before)
    expect(state().comments[0]!.split('\n')[0]).toBe(before!.split('\n')[0])
  })

  it('succeeds when everything is gone, and adds no comment', () => {
    const { status, calls } = preview('down', 'topic', '7')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(['branches get', 'gh pr view'])
    expect(state().comments).toEqual([])
  })

  it('needs only Neon’s settings without a pull request', () => {
    const { NEON_API_KEY, NEON_PROJECT_ID } = settings
    preview('up', 'topic')
    const { status, calls } = run('preview.sh', ['down', 'topic'], { NEON_API_KEY, NEON_PROJECT_ID })
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(['branches get', 'branches delete'])
  })

  it('succeeds when another run deletes the database first', () => {
    preview('up', 'topic', '7')
    mark('overtaken')
    const { status, calls } = preview('down', 'topic', '7')
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(['branches get', 'branches delete', 'branches get', 'gh pr view', 'gh api'])
  })

  it.each(['branches get', 'branches delete'])('does not claim a removal when %s fails', step => {
    preview('up', 'topic', '7')
    const before = state()
    const { status } = run('preview.sh', ['down', 'topic', '7'], { ...settings, FAIL: step })
    expect(status).toBe(1)
    expect(state()).toEqual(before)
  })
})

describe('deploy.sh', () => {
  const steps = ['build:dashboard', 'bucket create', 'db:migrate', 'deploy']

  it('builds the dashboard, creates the bucket, migrates, and deploys with production’s secrets', () => {
    const { status, calls } = run('deploy.sh', [], production)
    expect(status).toBe(0)
    expect(summarize(calls)).toEqual(steps)
    expect(state().buckets).toEqual([bucket])
    expect(calls[2]!.databaseUrl).toBe(production.DATABASE_OWNER_URL)
    expect(JSON.parse(calls[3]!.secrets!.text)).toEqual({
      DATABASE_URL: production.DATABASE_URL,
      DATABASE_SYSTEM_URL: production.DATABASE_SYSTEM_URL,
      SEALING_KEYS: production.SEALING_KEYS,
      PUBLIC_URL: production.PUBLIC_URL,
    })
  })

  it('uses an existing bucket', () => {
    run('deploy.sh', [], production)
    const { status, calls, stdout, stderr } = run('deploy.sh', [], production)
    expect([status, stdout + stderr]).toEqual([0, ''])
    expect(summarize(calls)).toEqual(steps)
  })

  it.each(['build:dashboard', 'bucket create', 'db:migrate'])('does nothing further when %s fails', step => {
    const { status, stderr, calls } = run('deploy.sh', [], { ...production, FAIL: step })
    expect(status).toBe(1)
    expect(stderr).toContain('refused')
    expect(summarize(calls)).toEqual(steps.slice(0, steps.indexOf(step) + 1))
  })
})

describe('both scripts', () => {
  const uses = [
    ['preview.sh', ['up', 'topic', '7'], settings],
    ['preview.sh', ['down', 'topic', '7'], { NEON_API_KEY: 'x', NEON_PROJECT_ID: 'x' }],
    [
      'deploy.sh',
      [],
      {
        CLOUDFLARE_API_TOKEN: 'x',
        CLOUDFLARE_ACCOUNT_ID: 'x',
        SEALING_KEYS: 'x',
        PUBLIC_URL: 'x',
        DATABASE_OWNER_URL: 'x',
        DATABASE_URL: 'x',
        DATABASE_SYSTEM_URL: 'x',
      },
    ],
  ] as const

  it.each(
    uses.flatMap(([script, args, needed]) => Object.keys(needed).map(name => [name, script, args, needed] as const)),
  )('refuse to start without the setting %s and name it: %s %j', (name, script, args, needed) => {
    for (const env of [
      { ...needed, [name]: '' },
      Object.fromEntries(Object.entries(needed).filter(([n]) => n !== name)),
    ]) {
      const { status, stdout, stderr, calls } = run(script, [...args], env)
      expect(status).toBe(2)
      expect(stderr).toContain(name)
      expect(stderr.trim().split('\n')).toHaveLength(1)
      expect(stdout).toBe('')
      expect(calls).toEqual([])
    }
  })

  it.each([
    ['preview.sh', []],
    ['preview.sh', ['up']],
    ['preview.sh', ['up', '']],
    ['preview.sh', ['sideways', 'topic']],
    ['preview.sh', ['up', 'topic', '7; rm']],
    ['preview.sh', ['up', 'topic', '--dry-run']],
    ['preview.sh', ['up', 'topic', '7', '8']],
    ['deploy.sh', ['production']],
  ])('refuse invalid arguments: %s %j', (script, args) => {
    const { status, calls } = run(script, args, production)
    expect(status).toBe(2)
    expect(calls).toEqual([])
  })

  it.each([
    ['preview.sh', ['up', 'feature/Ünï/../$(x)', '7']],
    ['preview.sh', ['down', 'topic', '7']],
    ['deploy.sh', []],
  ])('print the commands in a dry run, and run none: %s %j', (script, args) => {
    if (args[0] === 'down') preview('up', args[1]!, args[2]!)
    const before = state()
    const named = { NEON_PROJECT_ID: 'NEON_PROJECT_ID' }
    const dry = run(script, ['--dry-run', ...args], {})
    expect(dry).toMatchObject({ status: 0, stderr: '', calls: [] })
    expect(state()).toEqual(before)

    const plain = (line: string) =>
      line
        .replaceAll('\\', '')
        .replace(/\S+secrets.json/, 'FILE')
        .replace(/COMMENT_ID/, '100')
    const real = run(script, args, { ...production, ...named })
    expect(dry.stdout.trim().split('\n').map(plain)).toEqual(real.calls.map(({ line }) => plain(line)))
  })

  it.each([
    ['preview.sh', ['up', 'topic', '7']],
    ['preview.sh', ['down', 'topic', '7']],
    ['preview.sh', ['--dry-run', 'up', 'topic', '7']],
    ['deploy.sh', []],
    ['deploy.sh', ['--dry-run']],
  ])('show no secret in their output or arguments: %s %j', (script, args) => {
    const { status, stdout, stderr, calls } = run(script, args, production)
    expect(status).toBe(0)
    expect(stdout + stderr + calls.map(({ line, stdin }) => line + stdin)).not.toContain('hunter2')
  })

  it('show the new database addresses only in commands that make GitHub mask them', () => {
    const { stdout } = run('preview.sh', ['up', 'topic'], { ...settings, GITHUB_ACTIONS: 'true' })
    expect(stdout.split('\n').filter(line => line.includes('hunter2'))).toEqual(
      ['owner', 'app', 'system'].map(login => expect.stringContaining(`::add-mask::postgresql://${login}:`)),
    )
  })
})

describe('a command of package.json', () => {
  const [check, version] = ['src/host/require-node.cjs', 'src/host/require-version.cjs']
  const packages = './require-packages.cjs'
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const commands = Object.entries<string>(scripts).filter(
    ([name, command]) => / src\/\S+\.ts/.test(command) && !/^start:(deno|bun)$/.test(name),
  )

  it.each(commands)('%s checks the version of Node before it loads any TypeScript', (_, command) => {
    expect(command).toMatch(new RegExp(`^(exec )?node -r \\./${check} src/\\S+$`))
  })

  it.each([
    ['20.20.2', false],
    ['22.18.0', false],
    ['22.19.0', true],
    ['23.11.1', false],
    ['24.1.0', false],
    ['24.2.0', true],
    ['25.0.0', true],
    [process.versions.node, true],
  ])('with Node %s, works: %s', (node, works) => {
    const [lines, codes] = [[] as string[], [] as number[]]
    const console = { error: (line: string) => lines.push(line) }
    const exit = (code: number) => codes.push(code)
    runInNewContext(readFileSync(join(root, version), 'utf8'), { console, process: { versions: { node }, exit } })
    expect(codes).toEqual(works ? [] : [1])
    expect(lines).toEqual(works ? [] : [expect.stringMatching(/^[^\n]*22\.19[^\n]*$/)])
    expect(lines.join()).toContain(works ? '' : node)
  })

  it.each(['start:deno', 'start:bun'])('%s checks for packages first', name => {
    expect(scripts[`pre${name}`]).toBe('node src/host/require-packages.cjs')
  })

  it('without packages, names `npm ci` in place of a stack', () => {
    const folder = mkdtempSync(join(tmpdir(), 'slipway-bare-'))
    for (const name of ['require-node.cjs', 'require-version.cjs', packages])
      copyFileSync(join(root, 'src/host', name), join(folder, name))
    const { status, stderr } = spawnSync(process.execPath, [join(folder, 'require-node.cjs')], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^[^\n]*npm ci[^\n]*\n$/)])
    rmSync(folder, { recursive: true })
  })
})

describe('workflows', () => {
  const folder = join(root, '.github', 'workflows')
  const workflows = readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')] as const)
  const steps = (text: string) => [...text.matchAll(/^\s*(?:- )?run: *(.*)$/gm)].map(([, command]) => command!)

  it.each(workflows)('%s is block YAML, indented by two, without tabs or repeated keys', (_, text) => {
    const open: { indent: number; keys: Set<string> }[] = []
    for (const line of text.split('\n').filter(line => line.trim() && !line.trim().startsWith('#'))) {
      const [, spaces, dash, rest] = line.match(/^( *)(- )?(.*)$/)!
      expect(spaces!.length % 2, line).toBe(0)
      const indent = spaces!.length + (dash?.length ?? 0)
      while (open.length && open.at(-1)!.indent > indent) open.pop()
      const [, key] = rest!.match(/^([\w-]+):(?: |$)/) ?? []
      if (!key) continue
      if (dash || open.at(-1)?.indent !== indent) open.push({ indent, keys: new Set() })
      expect(open.at(-1)!.keys.has(key), line).toBe(false)
      open.at(-1)!.keys.add(key)
    }
    expect([...open[0]!.keys]).toEqual(expect.arrayContaining(['name', 'on', 'permissions', 'jobs']))
  })

  it.each(workflows)('%s runs only one-line steps, and no text of an event within them', (_, text) => {
    for (const command of steps(text)) {
      expect(command).toMatch(
        /^(npm (ci|test|run [\w:]+)|(sudo .*)?npm run proof .*|helm registry .*|echo .*|[\w/-]+\.sh.*)$/,
      )
      expect(command).not.toContain('${{')
    }
  })

  it.each(workflows)('%s uses first-party actions at a major version', (_, text) => {
    const actions = [...text.matchAll(/uses: (.*)/g)]
    expect(actions).not.toEqual([])
    for (const [, used] of actions) expect(used).toMatch(/^(actions\/[\w-]+@v\d+|\.\/\S+)$/)
  })

  it('call every script, and only scripts that exist', () => {
    const called = workflows.flatMap(([, text]) => steps(text)).filter(command => command.startsWith('scripts/'))
    const files = called.map(command => command.split(' ')[0]!)
    expect(new Set(files)).toEqual(new Set(['scripts/preview.sh', 'scripts/deploy.sh', 'scripts/container_tools.sh']))
    for (const file of files) expect(existsSync(join(root, file))).toBe(true)
  })

  it('pass each secret of the environment to the scripts by its own name', () => {
    const secrets = workflows.flatMap(([, text]) => [...text.matchAll(/(\w+): \$\{\{ (?:secrets|vars)\.(\w+) \}\}/g)])
    expect(secrets.length).toBeGreaterThan(10)
    for (const [, name, secret] of secrets) expect(secret).toBe(name)
  })
})
