// The trials in TypeScript share this: results and their count, the cache folder, programs that `--install` installs.
import { execFileSync } from 'node:child_process'
import { accessSync, constants, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { formatCounts } from './counts.ts'

/** Programs and downloads that survive the trial. Never a folder of the repository. */
export const CACHE = process.env.SLIPWAY_TRIALS || join(homedir(), '.cache/slipway-trials')
const BIN = join(CACHE, 'bin')
mkdirSync(BIN, { recursive: true })
const SYSTEM = ['/usr/local/go/bin', '/usr/lib/go/bin', '/usr/local/sbin', '/usr/sbin', '/lib/systemd']
process.env.PATH = [BIN, process.env.PATH, ...SYSTEM].join(delimiter)

/** Bounds what hangs. A busy machine needs minutes for what takes seconds. */
export const PATIENCE_MS = 900_000

export const isInstalling = process.argv.includes('--install')
/** The value of `--name=value`. */
export const optionOf = (name: string): string | undefined =>
  process.argv.find(argument => argument.startsWith(`--${name}=`))?.slice(name.length + 3)

const counts = { passed: 0, failed: 0, skipped: 0 }
export const note = (text: string): void => console.log(`        ${text}`)
export function passed(name: string): void {
  counts.passed++
  console.log(`passed  ${name}`)
}
/** The trial goes on, and ends with status 1. */
export function failed(name: string): void {
  counts.failed++
  console.log(`FAILED  ${name}`)
}
export function skipped(reason: string): void {
  counts.skipped++
  console.log(`skipped ${reason}`)
}
export function check(name: string, isTrue: boolean, detail = ''): void {
  if (isTrue) passed(name)
  else failed(detail ? `${name}: ${detail}` : name)
}

/** Runs a trial, prints the counts, and sets the status of the process. */
export async function runTrial(trial: () => Promise<void>): Promise<void> {
  await trial().catch((error: unknown) => failed(error instanceof Error ? (error.stack ?? error.message) : `${error}`))
  console.log(formatCounts(counts))
  process.exitCode = counts.failed > 0 ? 1 : 0
}

/** Packages of Debian with another name than their program. */
const PACKAGES: Record<string, string> = {
  busybox: 'busybox-static',
  bwrap: 'bubblewrap',
  go: 'golang-go',
  ip: 'iproute2',
  mvn: 'maven',
  nsenter: 'util-linux',
  pip: 'python3-pip',
  promtool: 'prometheus',
  psql: 'postgresql',
  'qemu-aarch64-static': 'qemu-user-static',
  readelf: 'binutils',
  rsyslogd: 'rsyslog',
  sshd: 'openssh-server',
  'systemd-analyze': 'systemd',
  smtpd: 'opensmtpd',
  'syslog-ng': 'syslog-ng-core',
  unshare: 'util-linux',
}
/** Modules of Go, which compares what it downloads with the digests of its checksum database. */
const MODULES: Record<string, string> = {
  act: 'github.com/nektos/act@v0.2.89',
  caddy: 'github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9',
  kubeconform: 'github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0',
  minio: 'github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c',
  pebble: 'github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1',
  'pebble-challtestsrv': 'github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1',
}

export const hasProgram = (name: string): boolean =>
  process.env.PATH!.split(delimiter).some(folder => isExecutable(join(folder, name)))

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Returns why a trial cannot run these programs. With `--install`, first installs each that is missing. */
export function findMissing(...names: string[]): string | undefined {
  const failures = names.filter(name => !hasProgram(name)).flatMap(name => install(name) ?? [])
  return failures.length > 0 ? failures.join('. ') : undefined
}

let isUpdated = false
function install(name: string): string | undefined {
  if (!isInstalling) return `${name} is not installed: --install`
  const module = MODULES[name]
  if (module && !hasProgram('go')) return `${name} is not installed, nor is go, which builds it`
  try {
    if (module) runQuietly('go', 'install', module)
    else {
      if (!isUpdated) runQuietly('apt-get', 'update', '-qq')
      isUpdated = true
      runQuietly('apt-get', 'install', '--yes', '--no-install-recommends', PACKAGES[name] ?? name)
    }
  } catch (error) {
    const output = (error as { stderr?: Buffer }).stderr?.toString().trim().split('\n').at(-1)
    return `${name} could not be installed: ${output || error}`
  }
  return hasProgram(name) ? undefined : `${module ?? PACKAGES[name] ?? name} does not bring ${name}`
}

function runQuietly(program: string, ...args: string[]): void {
  const env = { ...process.env, GOBIN: BIN, GOFLAGS: '-trimpath', DEBIAN_FRONTEND: 'noninteractive' }
  execFileSync(program, args, { env, stdio: 'pipe', maxBuffer: 1 << 26 })
}
