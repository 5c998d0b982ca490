// Keeps the processes of applications from creating user namespaces, in which they would have capabilities that reach
// more of the kernel. A small program installs a seccomp filter, because neither Node nor every `setpriv` can.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { User } from './users.ts'

const CLONE_NEWUSER = 0x1000_0000
const EPERM = 1
const ENOSYS = 38

/** Numbers of system calls: https://github.com/torvalds/linux/tree/master/arch/x86/entry/syscalls */
const X64 = { arch: 0xc000_003e, clone: 56, unshare: 272, clone3: 435 }
const X86 = { arch: 0x4000_0003, clone: 120, unshare: 310, clone3: 435 }
/** The first number of the x32 interface, which would bypass the filter. */
const X32_CALLS = 0x4000_0000

type Instruction = { code: number; value: number; jump?: string; label?: string }
const LOAD = 0x20
const JUMP_EQUAL = 0x15
const JUMP_FROM = 0x35
const JUMP_BITS = 0x45
const RETURN = 0x06
const NUMBER_AT = 0
const ARCH_AT = 4
const FIRST_ARGUMENT_AT = 16

const allow: Instruction = { code: RETURN, value: 0x7fff_0000 }
const refuse = (error: number, label = ''): Instruction => ({ label, code: RETURN, value: 0x5_0000 + error })
const jumpIfEqual = (value: number, jump: string): Instruction => ({ code: JUMP_EQUAL, value, jump })

/** `clone3` has its flags in memory, which no filter can read. Programs use `clone` if the kernel does not have it. */
const callsOf = ({ clone, unshare, clone3 }: typeof X64, label: string): Instruction[] => [
  { label, code: LOAD, value: NUMBER_AT },
  { code: JUMP_FROM, value: X32_CALLS, jump: 'unknown' },
  jumpIfEqual(clone3, 'unknown'),
  jumpIfEqual(unshare, 'flags'),
  jumpIfEqual(clone, 'flags'),
  allow,
]
const FILTER: Instruction[] = [
  { code: LOAD, value: ARCH_AT },
  jumpIfEqual(X64.arch, 'x64'),
  jumpIfEqual(X86.arch, 'x86'),
  refuse(ENOSYS),
  ...callsOf(X64, 'x64'),
  ...callsOf(X86, 'x86'),
  { label: 'flags', code: LOAD, value: FIRST_ARGUMENT_AT },
  { code: JUMP_BITS, value: CLONE_NEWUSER, jump: 'namespace' },
  allow,
  refuse(EPERM, 'namespace'),
  refuse(ENOSYS, 'unknown'),
]

function encodeFilter(): Buffer {
  const encoded = Buffer.alloc(FILTER.length * 8)
  for (const [i, { code, value, jump }] of FILTER.entries()) {
    // A jump is taken if the condition holds, counts from the next instruction, and only goes forward.
    const skipped = jump === undefined ? 0 : FILTER.findIndex(({ label }) => label === jump) - i - 1
    encoded.writeUInt16LE(code, i * 8)
    encoded.writeUInt8(skipped, i * 8 + 2)
    encoded.writeUInt32LE(value, i * 8 + 4)
  }
  return encoded
}

/**
 * The program `launcher PROGRAM ARGUMENTS…`, as machine code for x86-64:
 * prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter); execve(PROGRAM, …).
 * If one of them fails, it exits with 126.
 */
const CODE = [
  'bf26000000', // mov edi, 38
  'be01000000', // mov esi, 1
  '31d2', // xor edx, edx
  '4531d2', // xor r10d, r10d
  '4531c0', // xor r8d, r8d
  'b89d000000', // mov eax, 157 (prctl)
  '0f05', // syscall
  '85c0', // test eax, eax
  '7534', // jnz to the exit
  'bf16000000', // mov edi, 22
  'be02000000', // mov esi, 2
  'ba00000000', // mov edx, the address of the filter
  'b89d000000', // mov eax, 157
  '0f05', // syscall
  '85c0', // test eax, eax
  '751a', // jnz to the exit
  '488b7c2410', // mov rdi, [rsp + 16]: the first argument
  '488d742410', // lea rsi, [rsp + 16]
  '488b0424', // mov rax, [rsp]: the number of arguments
  '488d54c410', // lea rdx, [rsp + rax * 8 + 16]: the environment
  'b83b000000', // mov eax, 59 (execve)
  '0f05', // syscall
  'bf7e000000', // mov edi, 126
  'b83c000000', // mov eax, 60 (exit)
  '0f05', // syscall
].join('')
const FILTER_ADDRESS_AT = CODE.indexOf('ba00000000') / 2 + 1
const LOADED_AT = 0x40_0000
const HEADERS_SIZE = 64 + 56

/** An ELF file with one segment: headers, code, the address and length of the filter, the filter. */
export function buildLauncher(): Buffer {
  const code = Buffer.from(CODE, 'hex')
  const filter = encodeFilter()
  const descriptionAt = Math.ceil((HEADERS_SIZE + code.length) / 8) * 8
  const filterAt = descriptionAt + 16
  code.writeUInt32LE(LOADED_AT + descriptionAt, FILTER_ADDRESS_AT)
  const file = Buffer.alloc(filterAt + filter.length)
  Buffer.from('7f454c46020101', 'hex').copy(file)
  file.writeUInt16LE(2, 16) // an executable
  file.writeUInt16LE(62, 18) // for x86-64
  file.writeUInt32LE(1, 20)
  file.writeBigUInt64LE(BigInt(LOADED_AT + HEADERS_SIZE), 24) // the address of its start
  file.writeBigUInt64LE(64n, 32) // the offset of the program header
  for (const [i, size] of [64, 56, 1].entries()) file.writeUInt16LE(size, 52 + 2 * i)
  file.writeUInt32LE(1, 64) // a segment to load
  file.writeUInt32LE(5, 68) // to read and execute
  for (const at of [80, 88]) file.writeBigUInt64LE(BigInt(LOADED_AT), at)
  for (const at of [96, 104]) file.writeBigUInt64LE(BigInt(file.length), at)
  file.writeBigUInt64LE(0x1000n, 112)
  code.copy(file, HEADERS_SIZE)
  file.writeUInt16LE(FILTER.length, descriptionAt)
  file.writeBigUInt64LE(BigInt(LOADED_AT + filterAt), descriptionAt + 8)
  filter.copy(file, filterAt)
  return file
}

const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'

let launcher: string | undefined
/** The program that runs a program without user namespaces, if there is one. */
export const userNamespaceLauncher = (): string | undefined => launcher

export function allowUserNamespaces(): undefined {
  launcher = undefined
}

/** Chooses how applications are kept from user namespaces. Returns why they are not, or undefined. */
export function denyUserNamespaces(folder: string, user: User): string | undefined {
  launcher = undefined
  const file = join(folder, 'without-user-namespaces')
  if (process.arch === 'x64') {
    // Replaces the file, because a running process may still use the present one.
    // The owner of the folder could have put a link there.
    fs.rmSync(`${file}.new`, { recursive: true, force: true })
    fs.writeFileSync(`${file}.new`, buildLauncher(), { flag: 'wx' })
    fs.chmodSync(`${file}.new`, 0o755)
    fs.renameSync(`${file}.new`, file)
    if (canRun([file, '/bin/sh', '-c', ':'], user)) {
      launcher = file
      return undefined
    }
  }
  if (canRun(['unshare', '--user', '/bin/sh', '-c', ':'], user))
    return 'the filter of the agent does not run here (it is for x86-64), and the system allows user namespaces'
  return undefined
}

function canRun([program, ...args]: string[], user: User): boolean {
  try {
    execFileSync(program!, args, { ...user, cwd: '/', env: { PATH: SYSTEM_PATH }, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
