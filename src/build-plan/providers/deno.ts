// Deno applications: with its configuration, or with modules of Deno alone.
import type { Proposal } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { findVersion } from '../versions.ts'

const CONFIGURATIONS = ['deno.json', 'deno.jsonc']
const PROGRAMS = ['main.ts', 'server.ts', 'mod.ts', 'main.js', 'src/main.ts', 'index.ts']

export function proposeDeno(app: Folder): Proposal | null {
  const configuration = CONFIGURATIONS.find(app.has) ?? (app.has('deno.lock') ? 'deno.lock' : undefined)
  if (!configuration) return null
  const tools = [findVersion(app, 'deno', ['.deno-version', '.dvmrc'])]
  const program = PROGRAMS.find(app.has)
  const certain = [`${configuration} makes it a Deno application.`]
  const install = program === undefined ? null : `deno cache ${program}`
  // The configuration may have comments, which only Deno reads.
  if (/"start"\s*:/.test(app.read(configuration) ?? '')) return { tools, install, start: 'deno task start', certain }
  if (!program) return { tools, refusal: 'The Deno application has no task `start` and no main.ts. Add one of them.' }
  const serves = /\bexport\s+default\s*\{/.test(app.read(program) ?? '')
  return {
    tools,
    install,
    start: serves ? `deno serve --allow-all --port $PORT ${program}` : `deno run --allow-all ${program}`,
    certain,
    guessed: [`\`${program}\` is its program.`],
  }
}
