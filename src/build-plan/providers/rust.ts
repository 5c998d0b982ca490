// Cargo packages and workspaces.
import type { Proposal } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { readToml } from '../toml.ts'
import { findVersion } from '../versions.ts'
import { matchPatterns } from '../workspace-patterns.ts'

const PROGRAM = '.slipway/app'

export function proposeRust(app: Folder): Proposal | null {
  if (!app.has('Cargo.toml')) return null
  const tools = [findRust(app)]
  const packages = listPackages(app)
  const programs = packages.flatMap(programsOf)
  const { 'default-run': defaultRun } = Object(readToml(app, 'Cargo.toml')?.package)
  const chosen =
    programs.find(({ name }) => name === defaultRun) ?? programs.find(({ isMain }) => isMain) ?? programs[0]
  if (!chosen)
    return {
      tools,
      refusal: 'The Cargo package has no program. Add src/main.rs, or set `start_command` in slipway.json.',
    }
  return {
    tools,
    install: `cargo fetch${app.has('Cargo.lock') ? ' --locked' : ''}`,
    build:
      `cargo build --release --bin ${chosen.name} && ` +
      `mkdir -p .slipway && cp "\${CARGO_TARGET_DIR:-target}/release/${chosen.name}" ${PROGRAM}`,
    start: `${chosen.isRocket ? 'ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT ' : ''}./${PROGRAM}`,
    certain: ['Cargo.toml makes it a Cargo package.'],
    guessed: programs.length > 1 ? [`Of ${programs.length} programs, \`${chosen.name}\` is built.`] : [],
  }
}

function findRust(app: Folder) {
  const channel = Object(readToml(app, 'rust-toolchain.toml')?.toolchain).channel
  if (typeof channel === 'string') return { name: 'rust' as const, version: channel, from: 'rust-toolchain.toml' }
  const found = findVersion(app, 'rust', ['rust-toolchain', '.rust-version'])
  const minimum = Object(readToml(app, 'Cargo.toml')?.package)['rust-version']
  return found.version === null && typeof minimum === 'string'
    ? { name: 'rust' as const, version: `>=${minimum}`, from: 'Cargo.toml' }
    : found
}

/** The package itself, and the members of its workspace. */
function listPackages(app: Folder): Folder[] {
  const { members } = Object(readToml(app, 'Cargo.toml')?.workspace)
  const patterns = Array.isArray(members) ? members.filter(member => typeof member === 'string') : []
  const folders = app.all().flatMap(file => (file.endsWith('/Cargo.toml') ? file.slice(0, -'/Cargo.toml'.length) : []))
  const isMember = matchPatterns(patterns)
  return [app, ...folders.filter(isMember).map(app.folder)]
}

/** Rocket listens where its own variables say. */
type Program = { name: string; isMain: boolean; isRocket: boolean }
function programsOf(folder: Folder): Program[] {
  const manifest = readToml(folder, 'Cargo.toml')
  const { name } = Object(manifest?.package)
  const isRocket = Object(manifest?.dependencies).rocket !== undefined
  const named = (Array.isArray(manifest?.bin) ? manifest.bin : []).flatMap((bin): Program[] => {
    const { name } = Object(bin)
    return typeof name === 'string' ? [{ name, isMain: false, isRocket }] : []
  })
  const ownsMain = (Array.isArray(manifest?.bin) ? manifest.bin : []).some(bin => Object(bin).path === 'src/main.rs')
  const hasMain = typeof name === 'string' && folder.has('src/main.rs') && !ownsMain
  const main = hasMain ? [{ name, isMain: true, isRocket }] : []
  const names = new Set(named.map(({ name }) => name))
  const others = folder.all().flatMap((file): Program[] => {
    const name = /^src\/bin\/([^/]+?)(?:\.rs|\/main\.rs)$/.exec(file)?.[1]
    return name !== undefined && !names.has(name) ? [{ name, isMain: false, isRocket }] : []
  })
  return [...main, ...named, ...others]
}
