// OpenTofu applies the configuration of docs/deploy/terraform.md: plan, apply, change, drift, import, destroy.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { CACHE, check, hasProgram, isInstalling, note, passed, runTrial, skipped } from '../support/trial.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
const PAGE = join(import.meta.dirname, '../../../docs/deploy/terraform.md')
const OPENTOFU = { module: 'github.com/opentofu/opentofu', version: 'v1.12.6' }
const PROVIDER = { module: 'github.com/Mastercard/terraform-provider-restapi', version: '3.0.0' }
const runFile = promisify(execFile)
const work = mkdtempSync(join(tmpdir(), 'slipway-terraform-'))

/** `go install` refuses a module that replaces others, so it is built from its own folder. */
async function buildOpenTofu(): Promise<string> {
  const program = join(CACHE, `tofu-${OPENTOFU.version}`)
  if (existsSync(program)) return program
  if (!isInstalling) throw new Error('it is not installed: --install')
  note(`building OpenTofu ${OPENTOFU.version}, which takes minutes`)
  const { stdout } = await runFile('go', ['mod', 'download', '-json', `${OPENTOFU.module}@${OPENTOFU.version}`])
  const source = join(work, 'opentofu')
  cpSync(JSON.parse(stdout).Dir, source, { recursive: true })
  execFileSync('chmod', ['-R', 'u+w', source])
  await runFile('go', ['build', '-o', program, './cmd/tofu'], { cwd: source, maxBuffer: 64 << 20 })
  return program
}

/** `TERRAFORM_PROVIDER_RESTAPI` names its program or its source. Its Go module path lacks the `/v3` that Go demands. */
async function buildProvider(): Promise<string> {
  const given = process.env.TERRAFORM_PROVIDER_RESTAPI
  const program = join(CACHE, `terraform-provider-restapi-${PROVIDER.version}`)
  if (given && existsSync(join(given, 'go.mod'))) {
    await runFile('go', ['build', '-o', program, '.'], { cwd: given, maxBuffer: 64 << 20 })
    return program
  }
  if (given) return given
  if (existsSync(program)) return program
  if (!isInstalling) throw new Error('it is not installed: --install')
  const env = { ...process.env, GOBIN: work }
  await runFile('go', ['install', `${PROVIDER.module}@master`], { env, maxBuffer: 64 << 20 })
  cpSync(join(work, 'terraform-provider-restapi'), program)
  return program
}

const reasonOf = (error: unknown): string => String(error).split('\n').slice(0, 3).join(' ').slice(0, 300)

async function findPrograms(): Promise<{ tofu: string; provider: string } | undefined> {
  const tofu = process.env.TOFU ?? (hasProgram('tofu') ? 'tofu' : undefined)
  try {
    return { tofu: tofu ?? (await buildOpenTofu()), provider: await buildProvider() }
  } catch (error) {
    skipped(`OpenTofu or the provider could not be built: ${reasonOf(error)}`)
    note('TOFU names the program, TERRAFORM_PROVIDER_RESTAPI the provider or a checkout of its source')
    return undefined
  }
}

async function startInstallation(cleanup: AsyncDisposableStack) {
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  const url = `http://127.0.0.1:${await findFreePort()}`
  const settings = {
    PATH: process.env.PATH!,
    DATABASE_URL: postgres.url,
    DATABASE_OWNER_URL: postgres.url,
    SEALING_KEYS: `k1:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`,
    UPLOADS_DIR: join(work, 'uploads'),
    PUBLIC_URL: url,
    ALLOW_LOOPBACK: 'true',
    PORT: new URL(url).port,
    HOST: '127.0.0.1',
  }
  await runFile(process.execPath, [MAIN, 'migrate'], { env: settings })
  const plane = spawn(process.execPath, [MAIN, 'start'], { env: settings, stdio: 'ignore' })
  cleanup.defer(async () => {
    if (plane.exitCode !== null) return
    plane.kill('SIGTERM')
    await once(plane, 'exit')
  })
  for (const end = Date.now() + 60_000; !(await fetch(`${url}/readyz`).catch(() => null))?.ok; await delay(200))
    if (Date.now() > end) throw new Error('The control plane did not become ready.')
  const { stdout } = await runFile(
    process.execPath,
    [MAIN, 'bootstrap', '--organization', 'Acme', '--organization-key'],
    { env: settings },
  )
  const key = /slw_\w+/.exec(stdout)![0]
  const call = async (method: string, path: string, body?: unknown, tenant?: string) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json', ...(tenant && { 'X-Tenant-Id': tenant }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text ? JSON.parse(text) : null }
  }
  const [workspace] = (await call('GET', '/workspaces')).body.resources
  return { url, key, call, tenant: workspace.id as string }
}

/** A folder from which `init` takes the provider, in place of a registry. */
function writeConfiguration(provider: string): { folder: string; settings: string } {
  const folder = join(work, 'configuration')
  const platform = `${process.platform}_${process.arch === 'x64' ? 'amd64' : process.arch}`
  const mirror = join(work, 'mirror/registry.opentofu.org/mastercard/restapi', PROVIDER.version, platform)
  mkdirSync(mirror, { recursive: true })
  cpSync(provider, join(mirror, `terraform-provider-restapi_v${PROVIDER.version}`))
  mkdirSync(folder)
  writeFileSync(join(folder, 'main.tf'), /```hcl\n([\s\S]*?)```/.exec(readFileSync(PAGE, 'utf8'))![1]!)
  const settings = join(work, 'tofu.rc')
  writeFileSync(
    settings,
    `provider_installation {\n  filesystem_mirror {\n    path = "${join(work, 'mirror')}"\n  }\n}\n`,
  )
  return { folder, settings }
}

async function trial(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  if (!process.env.TOFU && !hasProgram('tofu') && !hasProgram('go')) return skipped('go and tofu are missing')
  const programs = await findPrograms()
  if (!programs) return
  const { url, key, call, tenant } = await startInstallation(cleanup)
  const { folder, settings } = writeConfiguration(programs.provider)
  const variables = { slipway_url: url, slipway_key: key, workspace_id: tenant, token: 'hush' }
  const env = {
    PATH: process.env.PATH!,
    HOME: work,
    TF_CLI_CONFIG_FILE: settings,
    TF_IN_AUTOMATION: '1',
    CHECKPOINT_DISABLE: '1',
    ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [`TF_VAR_${name}`, value])),
  }
  /** Returns the status: that of `plan` is 2 when something would change. */
  async function tofu(...args: string[]): Promise<number> {
    const child = spawn(programs!.tofu, args, { cwd: folder, env })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
    const [code] = await once(child, 'close')
    if (code !== 0 && !(args[0] === 'plan' && code === 2)) note(output.slice(-3000))
    else if (process.env.VERBOSE) note(output.slice(-3000))
    return code
  }
  const plan = (...args: string[]) => tofu('plan', '-no-color', '-input=false', '-detailed-exitcode', ...args)
  const apply = (...args: string[]) => tofu('apply', '-no-color', '-input=false', '-auto-approve', ...args)
  const find = async (path: string) => (await call('GET', path, undefined, tenant)).body.resources

  check('init', (await tofu('init', '-no-color', '-input=false')) === 0)
  check('plan shows what is missing', (await plan()) === 2)
  check('apply creates it', (await apply()) === 0)
  check('the plan is empty then', (await plan()) === 0)
  const [web] = await find('/v2/deployments?name=web')
  const [role] = await find('/orgs/current/roles?name=Operator')
  const [webhook] = await find('/v2/webhooks?url=https://ci.example.com/slipway')
  check('everything is there', Boolean(web && role && webhook))

  check('a change is planned', (await plan('-var=min_scale=2')) === 2)
  check('and applied', (await apply('-var=min_scale=2')) === 0)
  const [changed] = await find('/v2/deployments?name=web')
  check('in place', changed.id === web.id && changed.source_config.resource_spec.min_scale === 2)
  check('the plan is empty then, too', (await plan('-var=min_scale=2')) === 0)
  check('a new value of a secret is applied', (await apply('-var=min_scale=2', '-var=token=changed')) === 0)
  const [secret] = await find('/v2/deployments?name=web')
  check('and its fingerprint is another', secret.secret_fingerprints.TOKEN !== changed.secret_fingerprints.TOKEN)
  check('the old variables are applied again', (await apply()) === 0)

  await call('PATCH', `/orgs/current/roles/${role.id}`, { permissions: ['deployments:read'] })
  check('a change by another client is planned', (await plan()) === 2)
  check('and restored', (await apply()) === 0 && (await plan()) === 0)
  const [restored] = await find('/orgs/current/roles?name=Operator')
  check('in the same order', restored.permissions.join() === 'deployments:update,deployments:read')

  await call('DELETE', `/v2/webhooks/${webhook.id}`, undefined, tenant)
  // This version of the provider keeps a resource that is gone, without its id.
  await tofu('state', 'rm', 'restapi_object.ci')
  check('a deletion by another client is planned', (await plan()) === 2)
  check('and created again', (await apply()) === 0 && (await plan()) === 0)

  check('forgotten', (await tofu('state', 'rm', 'restapi_object.web')) === 0)
  check(
    'imported by the id that its name finds',
    (await tofu('import', 'restapi_object.web', `/v2/deployments/${web.id}`)) === 0,
  )
  check('applied after the import', (await apply()) === 0 && (await plan()) === 0)
  const [imported, ...others] = await find('/v2/deployments?name=web')
  check('the same deployment', imported.id === web.id && others.length === 0)

  check('destroy', (await tofu('destroy', '-no-color', '-auto-approve')) === 0)
  const gone = await call('GET', `/orgs/current/roles/${role.id}`)
  const left = (await call('GET', `/v2/deployments/${web.id}`, undefined, tenant)).body
  check('nothing is left', gone.status === 404 && left.status === 'AWAITING_DELETE')
  passed(`OpenTofu ${OPENTOFU.version} with Mastercard/restapi`)
}

await runTrial(trial)
