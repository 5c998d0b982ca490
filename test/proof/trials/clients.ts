// The client package in projects and in a Worker, the rules of Spectral, generated clients. It needs npm and Go.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { buildSync } from 'esbuild'
import { createHttpServer } from '../../../src/host/http-server.ts'
import { openTestbed } from '../support/testbed.ts'
import { check, isInstalling, note, runTrial, skipped } from '../support/trial.ts'
import { serveWorkers } from '../support/workerd.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = readFileSync(join(ROOT, 'docs/reference/client.md'), 'utf8')
const TYPESCRIPT = '5.9.3'
const SPECTRAL = '@stoplight/spectral-cli@6.16.3'
const OPENAPI_TYPESCRIPT = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0']
const HEY_API = '@hey-api/openapi-ts@0.95.0'
const OAPI_CODEGEN = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2'
const COMPILER_OPTIONS = {
  strict: true,
  target: 'ES2022',
  module: 'ESNext',
  moduleResolution: 'Bundler',
  lib: ['ES2022', 'DOM', 'DOM.Iterable'],
  types: [],
  skipLibCheck: false,
  outDir: 'built',
}

const work = mkdtempSync(join(tmpdir(), 'slipway-clients-'))
let settings: Record<string, string> = {}

type Outcome = { ok: boolean; output: string }
async function run(cwd: string, program: string, ...args: string[]): Promise<Outcome> {
  const env = { ...process.env, ...settings, npm_config_update_notifier: 'false', GOFLAGS: '-mod=mod' }
  return promisify(execFile)(program, args, { cwd, env, maxBuffer: 2 ** 26 }).then(
    ({ stdout }) => ({ ok: true, output: stdout }),
    ({ stdout, stderr, message }) => ({ ok: false, output: `${stdout ?? ''}${stderr ?? ''}` || message }),
  )
}
const lastLines = ({ output }: Outcome) => output.trim().split('\n').slice(-12).join('\n        ')

/** A program of the page, by the name that the page gives it. */
function readProgram(name: string): string {
  const at = PAGE.indexOf(`\`${name}\``)
  const [, text] = /```\w+\n(.*?)```/s.exec(PAGE.slice(at)) ?? []
  if (at < 0 || !text) throw new Error(`docs/reference/client.md has no program ${name}.`)
  return text
}

async function createProject(name: string, ...packages: string[]): Promise<string> {
  const folder = join(work, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, private: true, type: 'module' }))
  if (packages.length === 0) return folder
  const { ok, output } = await run(folder, 'npm', 'install', '--no-audit', '--no-fund', ...packages)
  if (!ok) throw new Error(`npm install ${packages.join(' ')} failed: ${output}`)
  return folder
}

async function tryJavaScript(tarball: string): Promise<void> {
  const folder = await createProject('javascript', tarball)
  writeFileSync(join(folder, 'list.mjs'), readProgram('list.mjs'))
  const listed = await run(folder, process.execPath, 'list.mjs')
  check('JavaScript: list.mjs of the page lists the deployment', /^shop \w+$/m.test(listed.output), lastLines(listed))
  // It follows events without an end, so it is stopped once it has printed those that there are.
  const follow = readProgram('follow.mjs').replace(
    /console\.log\(item\.data.*\n/,
    '$&  if (item.data.type === "deployment.created") break\n',
  )
  writeFileSync(join(folder, 'follow.mjs'), follow)
  const followed = await run(folder, process.execPath, 'follow.mjs')
  check(
    'JavaScript: follow.mjs of the page prints events',
    followed.output.includes('deployment.created'),
    lastLines(followed),
  )
}

async function tryTypeScript(tarball: string): Promise<void> {
  const compiler = isInstalling ? [`typescript@${TYPESCRIPT}`] : []
  const folder = await createProject('typescript', tarball, ...compiler)
  const tsc = join(isInstalling ? folder : ROOT, 'node_modules/typescript/bin/tsc')
  // The project has no types of Node, and this is what the program needs of them.
  const node = 'declare const process: { env: Record<string, string | undefined>; argv: string[]; exitCode?: number }\n'
  writeFileSync(join(folder, 'node.d.ts'), node)
  writeFileSync(join(folder, 'scale.ts'), readProgram('scale.ts'))
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: ['node.d.ts', 'scale.ts'] }),
  )
  const compiled = await run(folder, process.execPath, tsc, '-p', '.')
  const compilerName = isInstalling ? `TypeScript ${TYPESCRIPT}` : 'TypeScript of this project'
  check(
    `${compilerName}: scale.ts of the page compiles, strictly and without other types`,
    compiled.ok,
    lastLines(compiled),
  )
  const scaled = await run(folder, process.execPath, 'built/scale.js', '2')
  check(
    'TypeScript: it plans a change, and applies that plan',
    /min_scale.*\nshop 2$/ms.test(scaled.output.trim()),
    lastLines(scaled),
  )
  const refused = await run(folder, process.execPath, 'built/scale.js', '-1')
  check(
    'TypeScript: it shows the faults of a refused request',
    /invalid_request.*min_scale/s.test(refused.output),
    lastLines(refused),
  )
  const wrong = readProgram('scale.ts').replace('min_scale } }', "min_scale: 'two' } }")
  writeFileSync(join(folder, 'scale.ts'), wrong)
  const faulty = await run(folder, process.execPath, tsc, '-p', '.', '--noEmit')
  check(
    'TypeScript: a body of the wrong type does not compile',
    /scale\.ts.*error TS2345/s.test(faulty.output),
    lastLines(faulty),
  )
}

async function tryWorker(tarball: string, defer: (end: () => unknown) => void): Promise<void> {
  const folder = await createProject('worker', tarball)
  writeFileSync(join(folder, 'worker.js'), readProgram('worker.js'))
  const { SLIPWAY_URL: url, SLIPWAY_API_KEY: key } = settings as { SLIPWAY_URL: string; SLIPWAY_API_KEY: string }
  const { outputFiles } = buildSync({
    entryPoints: [join(folder, 'worker.js')],
    bundle: true,
    format: 'esm',
    write: false,
  })
  const serve = async (webhookKey: string) => {
    const bindings = { SLIPWAY_URL: url, SLIPWAY_API_KEY: key, WEBHOOK_KEY: webhookKey }
    const worker = { modules: { 'worker.js': outputFiles[0]!.text }, bindings, flags: [] }
    return serveWorkers({ defer }, { worker })
  }
  const send = async (method: string, path: string, body?: object) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    return (await response.json()) as Record<string, string> & {
      delivered: boolean
      answer: { status: number; body: string }
    }
  }
  const { urls } = await serve('')
  const shown = await (await fetch(urls.worker)).text()
  check('Worker without compatibility flags: it shows the deployment', shown.includes('"name":"shop"'), shown)
  for (const member of ['secret', 'public_key']) {
    // The URL of the Worker is known when it serves, and its key before: so the webhook moves to the second one.
    const webhook = await send('POST', '/v2/webhooks', { url: urls.worker })
    const receiver = await serve(webhook[member]!)
    await send('PATCH', `/v2/webhooks/${webhook.id}`, { url: receiver.urls.worker })
    const accepted = await send('POST', `/v2/webhooks/${webhook.id}/ping`)
    check(`Worker: it accepts a message by the ${member}`, accepted.answer?.status === 204, JSON.stringify(accepted))
    await send('POST', `/v2/webhooks/${webhook.id}/rotate_secret`, { overlap_seconds: 0 })
    const rotated = await send('POST', `/v2/webhooks/${webhook.id}/ping`)
    const expected = member === 'secret' ? 401 : 204
    check(
      `Worker: after a rotation of the secret it answers ${expected}`,
      rotated.answer?.status === expected,
      JSON.stringify(rotated),
    )
  }
}

async function trySpectral(document: string): Promise<void> {
  const folder = await createProject('spectral', SPECTRAL)
  writeFileSync(join(folder, 'rules.yaml'), 'extends: ["spectral:oas"]\n')
  const args = ['lint', document, '--ruleset', 'rules.yaml', '--fail-severity', 'hint']
  const linted = await run(folder, join(folder, 'node_modules/.bin/spectral'), ...args)
  check('Spectral: the document follows spectral:oas without errors and warnings', linted.ok, lastLines(linted))
}

async function tryTypeScriptGenerators(document: string): Promise<void> {
  const folder = await createProject('generated', `typescript@${TYPESCRIPT}`, HEY_API, ...OPENAPI_TYPESCRIPT)
  const bin = (name: string) => join(folder, 'node_modules/.bin', name)
  const generated = [
    await run(folder, bin('openapi-ts'), '--input', document, '--output', 'hey'),
    await run(folder, bin('openapi-typescript'), document, '--output', 'api.ts'),
  ]
  for (const one of generated) if (!one.ok) note(lastLines(one))
  const { SLIPWAY_URL, SLIPWAY_API_KEY } = settings
  const options = `{ baseUrl: '${SLIPWAY_URL}', headers: { 'X-Api-Key': '${SLIPWAY_API_KEY}' } }`
  const programs = {
    'openapi-typescript': `import createClient from 'openapi-fetch'
import type { paths } from './api'
const client = createClient<paths>(${options})
const { data } = await client.GET('/v2/deployments', { params: { query: { limit: 5 } } })
for (const { name, status } of data?.resources ?? []) console.log(name, status)
`,
    'hey-api': `import { client } from './hey/client.gen'
import { listDeployments } from './hey'
client.setConfig(${options})
const { data } = await listDeployments({ query: { limit: 5 } })
for (const { name, status } of data?.resources ?? []) console.log(name, status)
`,
  }
  for (const [name, program] of Object.entries(programs)) {
    writeFileSync(join(folder, `${name}.ts`), program)
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: [`${name}.ts`] }),
    )
    const compiled = await run(folder, bin('tsc'), '-p', '.')
    check(`${name}: the generated client compiles`, compiled.ok, lastLines(compiled))
    const entry = join(folder, 'built', `${name}.js`)
    if (!compiled.ok || !existsSync(entry)) continue
    // The generated files import each other without extensions, as bundlers allow it.
    buildSync({ entryPoints: [entry], bundle: true, format: 'esm', platform: 'node', outfile: `${entry}.mjs` })
    const listed = await run(folder, process.execPath, `${entry}.mjs`)
    check(`${name}: it lists the deployment`, /^shop \w+$/m.test(listed.output), lastLines(listed))
  }
}

async function tryGo(document: string): Promise<void> {
  const folder = join(work, 'go')
  mkdirSync(join(folder, 'slipway'), { recursive: true })
  const steps = [
    ['mod', 'init', 'example.com/app'],
    ['run', OAPI_CODEGEN, '-generate', 'types,client', '-package', 'slipway', '-o', 'slipway/slipway.gen.go', document],
    ['mod', 'tidy'],
    ['build', '-o', 'app', '.'],
  ]
  writeFileSync(join(folder, 'main.go'), /```go\n(.*?)```/s.exec(PAGE)![1]!)
  for (const step of steps) {
    const outcome = await run(folder, 'go', ...step)
    if (!outcome.ok) return check(`Go: go ${step.join(' ')}`, false, lastLines(outcome))
  }
  const listed = await run(folder, join(folder, 'app'))
  check(
    'Go: the program of the page, with a generated client, lists the deployment',
    /^shop \w+$/m.test(listed.output),
    lastLines(listed),
  )
}

async function tryClients(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const loopback = { ALLOW_LOOPBACK: 'true' }
  const testbed = await openTestbed({ defer, seed: 1, share: 1, progress: () => {} }, { settings: loopback })
  const { api_key } = await testbed.tenant()
  const server = createHttpServer(testbed.app.fetch)
  defer(() => server.close())
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  settings = { SLIPWAY_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, SLIPWAY_API_KEY: api_key }

  const made = await run(ROOT, process.execPath, 'scripts/client-package.ts', join(work, 'package'))
  const tarball = made.output.trim().split(' ').at(-1)!
  check('the package is made', made.ok && existsSync(tarball), lastLines(made))
  if (!made.ok) return
  const { createClient } = (await import(join(work, 'package/index.js'))) as typeof import('../../../src/client/sdk.ts')
  const client = createClient({ url: settings.SLIPWAY_URL!, key: api_key })
  await client.call('POST /v2/deployments', {
    body: {
      name: 'shop',
      source: 'internal_container',
      source_config: { resource_spec: { min_scale: 1, max_scale: 3 } },
      source_revision_config: { image_uri: 'registry.example.com/shop:1' },
      secrets: [],
    },
  })
  await tryJavaScript(tarball)
  await tryTypeScript(tarball)
  await tryWorker(tarball, defer)

  const document = join(work, 'openapi.json')
  writeFileSync(document, await (await fetch(`${settings.SLIPWAY_URL}/openapi.json`)).text())
  if (!isInstalling) return skipped('Spectral and generated clients: run with --install')
  await trySpectral(document)
  await tryTypeScriptGenerators(document)
  if (await run(work, 'go', 'version').then(({ ok }) => ok)) await tryGo(document)
  else skipped('Go: it is not installed')
}

await runTrial(() => tryClients().finally(() => rmSync(work, { recursive: true, force: true })))
