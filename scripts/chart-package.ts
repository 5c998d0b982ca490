// Packages the chart with the digests of the newest release, so that its version names one content for ever:
// `npm run chart:package -- [--output FOLDER]`. Needs Helm on PATH.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Release, Releases } from '../distribution/releases.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** The digests stand in the line of each image of values.yaml. */
export function pinImages(values: string, images: NonNullable<Release['images']>): string {
  let pinned = values
  for (const [name, digest] of Object.entries(images)) {
    const line = new RegExp(`^( {2}${name}: \\{repository: [^,]+, tag: "", digest: )""(\\})$`, 'm')
    if (!line.test(pinned)) throw new Error(`charts/slipway/values.yaml has no image ${name} with an empty digest.`)
    pinned = pinned.replace(line, `$1"${digest}"$2`)
  }
  return pinned
}

function packageChart(): void {
  const { values } = parseArgs({ options: { output: { type: 'string', default: join(ROOT, 'dist/chart') } } })
  const [newest] = Releases.parse(JSON.parse(fs.readFileSync(join(ROOT, 'distribution/releases.json'), 'utf8')))
  if (!newest?.images)
    throw new Error(`Release ${newest?.chart} names no images. Record them with \`npm run release -- images\`.`)
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-chart-'))
  try {
    fs.cpSync(join(ROOT, 'charts/slipway'), join(folder, 'slipway'), { recursive: true })
    const file = join(folder, 'slipway/values.yaml')
    fs.writeFileSync(file, pinImages(fs.readFileSync(file, 'utf8'), newest.images))
    fs.mkdirSync(values.output, { recursive: true })
    const args = ['package', join(folder, 'slipway'), '--destination', resolve(values.output)]
    console.log(execFileSync('helm', args, { encoding: 'utf8' }).trim())
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  try {
    packageChart()
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
}
