// The images have what the programs of an installation load, and nothing that only development needs.
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { listSources } from '../../deploy/images/app-files.ts'
import { USER } from '../../deploy/images/contents.ts'
import { ENVIRONMENT, IMAGES } from '../../deploy/images/image-config.ts'
import { packLayer } from '../../deploy/images/layer.ts'
import { readLock } from '../../deploy/images/lock-packages.ts'
import { pinImages } from '../../scripts/chart-package.ts'
import commands from '../../src/host/commands.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '../..')
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const IMPORT = /^(?:import|export)\s(?!type\s)(?:[^'"]*?\sfrom\s)?'([^']+)'|\bimport\('([^']+)'\)/gms

/** Every file of src that the programs load, and every package with the file that loads it. */
function followImports() {
  const files = new Set<string>()
  const packages = new Map<string, string>()
  const pending = ['src/host/main.mjs', ...Object.values(commands).map(({ module }) => join('src/host', module))]
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (files.has(file)) continue
    files.add(file)
    if (!/\.(ts|[cm]js)$/.test(file)) continue
    for (const [, first, second] of readFileSync(join(ROOT, file), 'utf8').matchAll(IMPORT)) {
      const name = (first ?? second)!
      if (name.startsWith('.')) pending.push(join(dirname(file), name))
      else if (!isBuiltin(name)) packages.set(/^(@[^/]+\/)?[^/]+/.exec(name)![0], file)
    }
  }
  return { files, packages }
}

describe('the images', () => {
  const { files, packages } = followImports()
  const sources = listSources(ROOT, ['src', 'drizzle', 'examples'])
  const paths = new Set(sources.map(({ path }) => path))

  it('contain every file that a program of an installation imports', () => {
    expect(files.size).toBeGreaterThan(300)
    expect([...files].filter(file => !paths.has(`app/${file}`))).toEqual([])
  })

  it('contain every package that a program imports', () => {
    const missing = [...packages].filter(([name]) => !(name in manifest.dependencies))
    expect(missing).toEqual([])
  })

  it('contain every migration, and neither the command line nor a development dependency', () => {
    const { entries } = JSON.parse(readFileSync(join(ROOT, 'drizzle/meta/_journal.json'), 'utf8'))
    for (const { tag } of entries) expect(paths.has(`app/drizzle/${tag}.sql`), tag).toBe(true)
    const described = sources.find(({ path }) => path === 'app/package.json')!
    expect(JSON.parse(Buffer.from((described as { body: Uint8Array }).body).toString())).toMatchObject({
      version: manifest.version,
      dependencies: manifest.dependencies,
    })
    expect([...paths].filter(path => /^app\/(src\/cli|test|scripts)\/|_snapshot\.json$/.test(path))).toEqual([])
  })

  it('have the Node of package.json, and the same packages for every processor', () => {
    const lock = readLock()
    const { node } = manifest.devDependencies
    expect(Object.values(lock.node).map(({ version }) => version)).toEqual([node, node])
    for (const group of [lock.libraries, lock.tools])
      expect(group.arm64.map(({ name }) => name)).toEqual(group.amd64.map(({ name }) => name))
  })

  it('have layers that depend on neither the order of their files nor the time', async () => {
    const body = (text: string) => new TextEncoder().encode(text)
    const layerFiles = [
      { path: 'app/b', mode: 0o644, body: body('b') },
      { path: 'app/a/c', mode: 0o755, body: body('c') },
      { path: 'app/link', link: 'b' },
    ]
    const [one, two] = [await packLayer('app', layerFiles), await packLayer('app', layerFiles.toReversed())]
    expect(one.digest).toBe(two.digest)
    expect(one.digest).toBe('sha256:b63602768d267fe499fc298305bec521e8188ab6b03bcb72f72fbff9c1d36885')
  })

  it('are named by digest in a packaged chart', () => {
    const values = readFileSync(join(ROOT, 'deploy/chart/values.yaml'), 'utf8')
    const [slipway, agent] = ['a', 'b'].map(letter => `sha256:${letter.repeat(64)}`) as [string, string]
    const pinned = pinImages(values, { slipway, agent })
    expect(pinned.match(/digest: "sha256:\w+"/g)).toEqual([`digest: "${slipway}"`, `digest: "${agent}"`])
    expect(() => pinImages(pinned, { slipway, agent })).toThrow('slipway')
  })

  it('are described by a Dockerfile that runs the same programs as the same user', () => {
    const dockerfile = readFileSync(join(ROOT, 'deploy/images/Dockerfile'), 'utf8')
    const stages = dockerfile.split(/^FROM .* AS /m).map(stage => stage.replace(/\\\n\s*/g, ''))
    for (const image of IMAGES) {
      const stage = stages.find(text => text.startsWith(`${image.name}\n`))!.split('\n')
      const variables = Object.entries(ENVIRONMENT).filter(([name]) => name !== 'PATH')
      expect(stage).toContain(`ENV ${variables.map(([name, value]) => `${name}=${value}`).join(' ')}`)
      expect(stage).toContain(`USER ${USER}:${USER}`)
      expect(stage).toContain(`EXPOSE ${image.port}`)
      expect(stage).toContain(`ENTRYPOINT ${JSON.stringify(image.entrypoint).replaceAll(',', ', ')}`)
      expect(stage).toContain(`CMD ["${image.command}"]`)
    }
  })
})
