// The archive of `slipway deploy`.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { unpackTar } from 'modern-tar'
import { afterAll, describe, expect, it } from 'vitest'
import { packFolder } from '../../src/cli/archive.ts'
import { exposePort } from '../../src/cli/compose/pack-service.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-pack-'))
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

let folders = 0
function makeFolder(files: Record<string, string>): string {
  const folder = join(root, `folder-${++folders}`)
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(join(folder, name, '..'), { recursive: true })
    fs.writeFileSync(join(folder, name), content)
  }
  return folder
}
const unpack = async (content: Blob) => unpackTar(gunzipSync(await content.arrayBuffer()))

it('packs the same bytes for the same files, whatever their times and the order of their creation', async () => {
  const first = makeFolder({ 'a.js': 'a', 'lib/b.js': 'b', 'run.sh': '#!' })
  const second = makeFolder({ 'run.sh': '#!', 'lib/b.js': 'b', 'a.js': 'a' })
  fs.utimesSync(join(second, 'a.js'), 1, 1)
  for (const folder of [first, second]) fs.chmodSync(join(folder, 'run.sh'), 0o755)
  const [one, two] = [await packFolder(first), await packFolder(second)]
  expect(one.sha256).toBe(two.sha256)
  expect(one).toMatchObject({ files: ['a.js', 'lib/b.js', 'run.sh'], unpackedBytes: 4 })
  const entries = await unpack(one.content)
  expect(entries.map(({ header, data }) => [header.name, header.mode, Buffer.from(data!).toString()])).toEqual([
    ['a.js', 0o644, 'a'],
    ['lib/b.js', 0o644, 'b'],
    ['run.sh', 0o755, '#!'],
  ])
  fs.writeFileSync(join(second, 'a.js'), 'c')
  expect((await packFolder(second)).sha256).not.toBe(one.sha256)
})

it.each([
  [
    'files that .gitignore lists',
    { '.gitignore': '*.log\n/dist/\n', 'a.log': '', 'dist/a.js': '', 'lib/dist/b.js': '' },
    ['lib/dist/b.js'],
  ],
  [
    'files that .slipwayignore lists, which overrides .gitignore',
    { '.gitignore': 'dist\n', '.slipwayignore': '!dist\nsrc\n', 'dist/a.js': '', 'src/b.ts': '' },
    ['dist/a.js'],
  ],
  [
    'files that the .gitignore of a deeper folder lists',
    { 'lib/.gitignore': 'tmp\n!keep.log\n', '.gitignore': '*.log\n', 'lib/tmp/x': '', 'lib/keep.log': '', 'tmp/y': '' },
    ['lib/keep.log', 'tmp/y'],
  ],
  [
    'git, modules and the link of the folder',
    { '.git/HEAD': '', 'node_modules/a/b.js': '', '.slipway/link.json': '', 'lib/node_modules/c.js': '', 'd.js': '' },
    ['d.js'],
  ],
  [
    'what tools make, and files that may hold secrets, unless they are taken in',
    {
      '.venv/bin/python': '',
      'target/app': '',
      'src/target/a.rs': '',
      'a/__pycache__/b.pyc': '',
      '.env': '',
      'a/.env.local': '',
      '.env.example': '',
      'key.pem': '',
      'v.env': '',
      'deep/secrets.yaml': '',
      'config/secrets.yml': '',
      'serviceAccountKey.json': '',
      'public.pem': '',
      '.slipwayignore': '!public.pem',
    },
    ['.env.example', 'config/secrets.yml', 'public.pem', 'src/target/a.rs'],
  ],
])('leaves out %s', async (_, files, packed) => {
  const { files: names } = await packFolder(makeFolder(files as Record<string, string>))
  expect(names.filter(name => !/ignore$/.test(name))).toEqual(packed)
})

describe('a symbolic link', () => {
  const linkTo = (target: string, files: Record<string, string> = {}) => {
    const folder = makeFolder({ 'a.js': 'a', ...files })
    fs.symlinkSync(target, join(folder, 'link'))
    return packFolder(folder)
  }

  it('within the folder stays a link', async () => {
    const entries = await unpack((await linkTo('a.js')).content)
    expect(entries.map(({ header }) => [header.name, header.type, header.linkname])).toContainEqual([
      'link',
      'symlink',
      'a.js',
    ])
  })

  it.each(['missing.js', '/etc', '..'])('to %s is refused by its name', async target => {
    await expect(linkTo(target)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining('link') })
  })

  it('may have any target if it is ignored', async () => {
    expect((await linkTo('missing.js', { '.slipwayignore': 'link' })).files).toEqual(['.slipwayignore', 'a.js'])
  })
})

it.each(['.gitignore', '.slipwayignore'])('packs a folder whose %s is a pipe, a folder or a link', async name => {
  const make = [
    (file: string) => spawnSync('mkfifo', [file]),
    (file: string) => fs.mkdirSync(file),
    (file: string) => fs.symlinkSync('a.js', file),
  ]
  for (const place of make) {
    const folder = makeFolder({ 'a.js': 'a.js' })
    place(join(folder, name))
    expect((await packFolder(folder)).files).toContain('a.js')
  }
})

it('refuses a file whose name is not UTF-8, and says which', async () => {
  const folder = makeFolder({ 'a.js': 'a' })
  fs.writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x62, 0xff])]), '')
  await expect(packFolder(folder)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining('b\ufffd') })
})

const LARGE = 'b'.repeat(2 * 1024 ** 2)
it.each([
  ['grows', 'b', (file: string) => fs.writeFileSync(file, 'longer')],
  ['shrinks', 'b', (file: string) => fs.writeFileSync(file, '')],
  ['vanishes', 'b', (file: string) => fs.rmSync(file)],
  ['grows', LARGE, (file: string) => fs.appendFileSync(file, 'longer')],
  ['shrinks', LARGE, (file: string) => fs.writeFileSync(file, '')],
  ['vanishes', LARGE, (file: string) => fs.rmSync(file)],
  [
    'becomes a link',
    'b',
    (file: string) => {
      fs.rmSync(file)
      fs.symlinkSync('a.js', file)
    },
  ],
  [
    'becomes a pipe',
    'b',
    (file: string) => {
      fs.rmSync(file)
      spawnSync('mkfifo', [file])
    },
  ],
])('refuses a file that %s while the folder is packed', async (_, content, change) => {
  const folder = makeFolder({ 'a.js': 'a', 'b.js': content })
  const packed = packFolder(folder, count => {
    if (count === 1) change(join(folder, 'b.js'))
  })
  await expect(packed).rejects.toMatchObject({ exitCode: 2 })
})

it('a Dockerfile of a compose file gets its port, and one behind a link stays a link', () => {
  const folder = fs.mkdtempSync(join(root, 'compose-'))
  fs.writeFileSync(join(folder, 'secret'), 'FROM scratch')
  const expose = () => exposePort(folder, 'web', '5000').added
  fs.symlinkSync('secret', join(folder, 'Dockerfile'))
  expect(expose()).toEqual({})
  fs.rmSync(join(folder, 'Dockerfile'))
  fs.writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch')
  expect(expose()).toEqual({ Dockerfile: 'FROM scratch\nEXPOSE 5000\n' })
})
