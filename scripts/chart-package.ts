// `npm run chart:package`: packages the chart of the newest release, with the digests of its images. It needs Helm.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Release, Releases } from '../deploy/releases/releases.ts'

const ROOT = join(import.meta.dirname, '..')
const USAGE = `npm run chart:package -- [--output FOLDER] [--registry REGISTRY] [--unpublished]
  --output       where the package is written; default: dist/chart
  --registry     where the images are, such as registry.example.com/slipway; by default the operator sets it
  --unpublished  packages a release that has no images yet, which then run by their tags`

/** Writes the registry and the digests into the text of values.yaml, whose comments and order stay. */
export function pinImages(values: string, images: Release['images'], registry?: string): string {
  const digests = Object.entries(images ?? {})
  const withDigests = digests.reduce((text, [name, digest]) => fillIn(text, `${name}: {.*digest: `, digest), values)
  return registry ? fillIn(withDigests, 'registry: ', registry) : withDigests
}

function fillIn(values: string, start: string, value: string): string {
  const line = new RegExp(`^( {2}${start.replace('{', '\\{')})""`, 'm')
  if (!line.test(values)) throw new Error(`deploy/chart/values.yaml has no line "${start}" with an empty value.`)
  return values.replace(line, `$1"${value}"`)
}

function packageChart({ output, registry, unpublished }: { output: string; registry?: string; unpublished: boolean }) {
  const [newest] = Releases.parse(JSON.parse(readFileSync(join(ROOT, 'deploy/releases/releases.json'), 'utf8')))
  if (!newest!.images && !unpublished)
    throw new Error(
      `Release ${newest!.chart} names no images. Build them and record them with \`npm run release -- images\`, ` +
        'or package for a trial with --unpublished.',
    )
  const work = mkdtempSync(join(tmpdir(), 'slipway-chart-'))
  try {
    // Files of other folders are links in the repository, and files in the package.
    cpSync(join(ROOT, 'deploy/chart'), join(work, 'slipway'), { recursive: true, dereference: true })
    const values = join(work, 'slipway/values.yaml')
    writeFileSync(values, pinImages(readFileSync(values, 'utf8'), newest!.images, registry))
    mkdirSync(output, { recursive: true })
    execFileSync('helm', ['package', join(work, 'slipway'), '--destination', output], { stdio: 'inherit' })
  } finally {
    rmSync(work, { recursive: true })
  }
}

if (import.meta.main) {
  try {
    const { values } = parseArgs({
      options: {
        output: { type: 'string', default: join(ROOT, 'dist/chart') },
        registry: { type: 'string' },
        unpublished: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) console.log(USAGE)
    else packageChart(values)
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
}
