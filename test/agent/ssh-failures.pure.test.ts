import { expect, it } from 'vitest'
import { describeGitFailure } from '../../src/agent/builds/git-failures.ts'
import { classifySshFailure } from '../../src/agent/builds/ssh-failures.ts'
import { PermanentError, SourceUnavailable } from '../../src/agent/engine.ts'

const END = 'fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights'
const CASES: [output: string, code: ReturnType<typeof classifySshFailure>][] = [
  [`@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n${END}`, 'host_key_changed'],
  [`git@host: Permission denied (publickey).\n${END}`, 'key_refused'],
  [`ERROR: Repository not found.\n${END}`, 'repository_missing'],
  [`fatal: '/srv/none.git' does not appear to be a git repository\n${END}`, 'repository_missing'],
  [`ssh: connect to host 10.0.0.5 port 22: Connection refused\n${END}`, 'host_away'],
  [`Connection closed by 10.0.0.5 port 22\n${END}`, 'host_away'],
  [`kex_exchange_identification: read: Connection reset by peer\n${END}`, 'host_away'],
  [`Timeout, server 10.0.0.5 not responding.\nfatal: the remote end hung up unexpectedly`, 'host_away'],
  ['bash: git-upload-pack: command not found', null],
]
it.each(CASES)('tells what %j means', (output, code) => {
  expect(classifySshFailure(output)).toBe(code)
  const error = describeGitFailure('git@host.example:acme/shop.git', new PermanentError(output))
  expect(error).toBeInstanceOf(code === 'host_away' ? SourceUnavailable : PermanentError)
})

it('blames the number of refs for the memory of git alone, not for that of the host', () => {
  const messageOf = (output: string) =>
    describeGitFailure('https://host.example/a.git', new PermanentError(output)).message
  const own = 'git ended with 128.\nfatal: Out of memory, malloc failed (tried to allocate 9 bytes)'
  const ofHost = `git ended with 128.\nremote: fatal: Out of memory, malloc failed\nfatal: remote error`
  expect(messageOf(own)).toContain('https://host.example/a.git')
  expect(messageOf(ofHost)).toBe(ofHost)
})

it('leaves what git says by HTTPS to the rules for HTTPS', () => {
  const error = describeGitFailure('https://host.example/shop.git', new PermanentError('Permission denied (publickey)'))
  expect(error.message).toBe('Permission denied (publickey)')
})
