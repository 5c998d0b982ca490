// Refs of servers that speak an earlier version of git's protocol, or another one.
import { expect, it } from 'vitest'
import { listRefs } from '../../../src/hosting/git-hosts/smart-http.ts'
import type { GuardedClient } from '../../../src/kernel/http/guarded-fetch.ts'

const [A, B, C] = ['a', 'b', 'c'].map(digit => digit.repeat(40)) as [string, string, string]
const line = (text: string) => (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text
function clientOf(...answers: (string | Uint8Array<ArrayBuffer>)[]) {
  const requests: { url: string; body: string }[] = []
  const fetch = async (url: string | URL, init?: RequestInit) => {
    requests.push({ url: String(url), body: String(init?.body ?? '') })
    return new Response(answers[requests.length - 1] ?? '', { status: 200 })
  }
  return { client: { fetch } as GuardedClient, requests }
}
const URL_OF = 'https://git.example.com/acme/shop.git'
const list = ({ client }: { client: GuardedClient }, ...prefixes: string[]) =>
  listRefs({ client, url: URL_OF, headers: {} }, prefixes)

it('version 0 lists all refs at once, tags with what they point to', async () => {
  const advertisement = [
    line('# service=git-upload-pack\n'),
    '0000',
    line(`${A} HEAD\0multi_ack symref=HEAD:refs/heads/main agent=git/1.9\n`),
    line(`${A} refs/heads/main\n`),
    line(`${B} refs/tags/v1\n`),
    line(`${C} refs/tags/v1^{}\n`),
    '0000',
  ].join('')
  const found = await list(clientOf(advertisement), 'HEAD', 'refs/tags/')
  expect(found).toEqual([
    { name: 'HEAD', sha: A, peeled: null, symref: 'refs/heads/main' },
    { name: 'refs/tags/v1', sha: B, peeled: C, symref: null },
  ])
})

it('version 2 is asked for the refs that are wanted, in the format of the repository', async () => {
  const server = clientOf(
    [line('version 2\n'), line('ls-refs=unborn\n'), line('object-format=sha256\n'), '0000'].join(''),
    [line('unborn HEAD symref-target:refs/heads/trunk\n'), line(`${B} refs/heads/ä peeled:${C}\n`), '0000'].join(''),
  )
  expect(await list(server, 'HEAD', 'refs/heads/ä')).toEqual([
    { name: 'HEAD', sha: null, peeled: null, symref: 'refs/heads/trunk' },
    { name: 'refs/heads/ä', sha: B, peeled: C, symref: null },
  ])
  expect(server.requests[1]).toEqual({
    url: `${URL_OF}/git-upload-pack`,
    body: [
      line('command=ls-refs\n'),
      line('object-format=sha256\n'),
      '0001',
      line('peel\n'),
      line('symrefs\n'),
      line('unborn\n'),
      line('ref-prefix HEAD\n'),
      line('ref-prefix refs/heads/ä\n'),
      '0000',
    ].join(''),
  })
})

it.each(['<html>Sign in</html>', '', 'ffff', line('ERR access denied\n')])(
  'anything else is refused: %j',
  async text => {
    await expect(list(clientOf(text), 'HEAD')).rejects.toMatchObject({ code: 'upstream_error' })
  },
)

it('a name that is not UTF-8 does not hide the others', async () => {
  const name = Buffer.concat([Buffer.from(`${A} refs/heads/`), Buffer.from([0xe4, 0xf6])])
  const length = (name.length + 4).toString(16).padStart(4, '0')
  const refs = Buffer.concat([Buffer.from(length), name, Buffer.from(`${line(`${B} refs/heads/main\n`)}0000`)])
  const server = clientOf([line('version 2\n'), '0000'].join(''), new Uint8Array(refs))
  expect((await list(server, 'refs/heads/'))?.map(({ sha }) => sha)).toEqual([A, B])
})
