import { expect, it } from 'vitest'
import { parseSshUrl, SSH_URL_PATTERN, toSshRemote, toSshUrl } from '../../src/protocol/ssh-url.ts'

const VALID: [text: string, host: string, port: number, path: string, remote: string][] = [
  ['git@git.example.com:acme/shop.git', 'git.example.com', 22, 'acme/shop.git', 'git@git.example.com:acme/shop.git'],
  [
    'git@git.example.com:/srv/shop.git',
    'git.example.com',
    22,
    '/srv/shop.git',
    'ssh://git@git.example.com/srv/shop.git',
  ],
  ['ssh://git@GIT.example.com/a/b', 'git.example.com', 22, '/a/b', 'ssh://git@git.example.com/a/b'],
  ['ssh://me@10.0.0.5:2222/a.git', '10.0.0.5', 2222, '/a.git', 'ssh://me@10.0.0.5:2222/a.git'],
  ['ssh://git@host.example/~/a.git', 'host.example', 22, 'a.git', 'git@host.example:a.git'],
  ['ssh://git@host.example:22/a', 'host.example', 22, '/a', 'ssh://git@host.example/a'],
]
it('reads both spellings, and gives git one that means the same', () => {
  for (const [text, host, port, path, remote] of VALID) {
    expect(parseSshUrl(text), text).toMatchObject({ host, port, path })
    expect(toSshRemote(toSshUrl(parseSshUrl(text)!)), text).toBe(remote)
    expect(text).toMatch(new RegExp(`^(${SSH_URL_PATTERN})$`))
  }
})

const HOSTILE = [
  'git@host:-oProxyCommand=x',
  '-oProxyCommand=x@host:a',
  'git@-oProxyCommand=x:a',
  'ssh://-oProxyCommand=x/a',
  'ssh://git@-x/a',
  'ssh://git:pass@host/a',
  'ssh://host/a',
  'host:a',
  'git@host:../a',
  'ssh://git@host/a/../b',
  'ssh://git@host/a//b',
  'ssh://git@host:0/a',
  'ssh://git@host:70000/a',
  'ssh://git@host/a?x',
  'ssh://git@host/a#x',
  'ssh://git@host/a b',
  'ssh://git@host/$(x)',
  "git@host:a';x",
  'ext::sh -c x',
  'https://git@host/a',
  `git@host:${'a/'.repeat(2000)}a`,
]
it.each(HOSTILE)('refuses %s', text => expect(parseSshUrl(text)).toBeNull())
