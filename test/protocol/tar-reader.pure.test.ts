// One reader lists archives and unpacks them, so that both see the same.
import { type TarEntry as Packed, packTar, unpackTar } from 'modern-tar'
import { expect, test } from 'vitest'
import { createTarReader, type TarEntry } from '../../src/protocol/tar-reader.ts'

type Found = TarEntry & { body: string }

/** Reads it in chunks of this size. */
function readTar(tar: Uint8Array, chunkBytes = tar.byteLength): Found[] {
  const found: (TarEntry & { chunks: Uint8Array[] })[] = []
  const reader = createTarReader()
  for (let at = 0; at < tar.byteLength; at += chunkBytes)
    for (const part of reader.read(tar.subarray(at, at + chunkBytes)))
      if ('entry' in part) found.push({ ...part.entry, chunks: [] })
      else found.at(-1)!.chunks.push(part.body)
  reader.end()
  return found.map(({ chunks, ...entry }) => ({ ...entry, body: Buffer.concat(chunks).toString() }))
}

const file = (name: string, body = 'x', more = {}): Packed => ({
  header: { name, size: Buffer.byteLength(body), type: 'file', ...more },
  body,
})
const metadata = (type: 'pax-header' | 'pax-global-header' | 'gnu-long-name' | 'gnu-long-link-name', body: string) => ({
  header: { name: 'm', size: Buffer.byteLength(body), type },
  body,
})

test('an archive has the same entries in chunks of any size, and for another decoder', async () => {
  const long = `${'folder/'.repeat(30)}${'n'.repeat(120)}`
  const tar = await packTar([
    metadata('pax-global-header', '20 comment=01234567\n'),
    { header: { name: 'src/', type: 'directory', size: 0 } },
    file('./src/a', 'a'.repeat(1025), { mode: 0o4755 }),
    file('empty', ''),
    file('even', 'e'.repeat(512)),
    file(`${'p/'.repeat(70)}prefix`),
    file(long, 'long'),
    file('ünïcödé/\ufeff', 'ü'),
    { header: { name: 'up', type: 'symlink', linkname: `../${long}`, size: 0 } },
    { header: { name: 'hard', type: 'link', linkname: 'src/a', size: 0 } },
    metadata('gnu-long-name', `${long}-gnu\0`),
    metadata('gnu-long-link-name', `${long}\0`),
    { header: { name: 'short', type: 'symlink', linkname: 'short', size: 0 } },
    { header: { name: 'd', type: 'character-device', size: 0 } },
  ])
  const found = readTar(tar)
  for (const bytes of [1, 7, 511, 512, 513]) expect(readTar(tar, bytes)).toEqual(found)
  const types = { directory: 'folder', symlink: 'symbolic link', link: 'hard link', file: 'file' } as const
  const other = (await unpackTar(tar)).map(({ header: { name, type, linkname, size, mode }, data }) => ({
    name,
    type: types[type as keyof typeof types] ?? 'other',
    target: linkname,
    size,
    mode,
    body: Buffer.from(data ?? []).toString(),
  }))
  expect(found).toEqual(other)
})

test.each<[string, () => Promise<Uint8Array>]>([
  ['a record that is longer than the rest', () => packTar([metadata('pax-header', '11 path=b\n'), file('a')])],
  ['a record that is shorter than it says', () => packTar([metadata('pax-header', '8 path=b\n'), file('a')])],
  ['a record without a length', () => packTar([metadata('pax-header', '2a'.repeat(100)), file('a')])],
  ['a record without a name', () => packTar([metadata('pax-header', '5 =b\n'), file('a')])],
  ['two sizes of an entry', () => packTar([metadata('pax-header', '9 size=2\n'), file('a')])],
  ['two sizes before an entry', () => packTar([metadata('pax-header', '9 size=1\n9 size=2\n'), file('a')])],
  ['a size that is no number', () => packTar([metadata('pax-header', '11 size=0x1\n'), file('a')])],
  ['a path of all entries', () => packTar([metadata('pax-global-header', '10 path=b\n'), file('a')])],
  ['a sparse file', () => packTar([metadata('pax-header', '22 GNU.sparse.major=1\n'), file('a')])],
  [
    'metadata of more than a megabyte',
    () => packTar([metadata('gnu-long-name', 'a'.repeat(1024 ** 2 + 1)), file('a')]),
  ],
  ['another checksum', async () => (await packTar([file('a')])).with(0, 98)],
  ['a number that is none', async () => (await packTar([file('a')])).with(124, 57).with(148, 32)],
  ['a cut body', async () => (await packTar([file('a', 'x'.repeat(2000))])).subarray(0, 1500)],
  ['a cut header', async () => (await packTar([file('a'), file('b')])).subarray(0, 1300)],
  ['no end', async () => (await packTar([file('a')])).subarray(0, 1024)],
  ['an entry behind its end', async () => Buffer.concat([await packTar([file('a')]), await packTar([file('b')])])],
])('an archive is refused with %s', async (_, pack) => {
  const tar = await pack()
  expect(() => readTar(tar)).toThrow()
  expect(() => readTar(tar, 100)).toThrow()
})
