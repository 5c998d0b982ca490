// Addresses that a server must not be made to request: every range that is not public, in every spelling.

/** The first and the last address of each range that is not public. */
export const RESERVED_IPV4 = [
  '0.0.0.0',
  '0.255.255.255',
  '10.0.0.0',
  '10.255.255.255',
  '100.64.0.0',
  '100.100.100.200',
  '100.127.255.255',
  '168.63.129.16',
  '127.0.0.0',
  '127.0.0.1',
  '127.255.255.255',
  '169.254.0.0',
  '169.254.169.254',
  '169.254.170.2',
  '169.254.255.255',
  '172.16.0.0',
  '172.31.255.255',
  '192.0.0.0',
  '192.0.0.192',
  '192.0.0.255',
  '192.0.2.0',
  '192.0.2.255',
  '192.31.196.0',
  '192.52.193.0',
  '192.88.99.0',
  '192.88.99.255',
  '192.168.0.0',
  '192.168.255.255',
  '192.175.48.0',
  '198.18.0.0',
  '198.19.255.255',
  '198.51.100.0',
  '198.51.100.255',
  '203.0.113.0',
  '203.0.113.255',
  ...['224.0.0.0', '239.255.255.255', '240.0.0.0', '255.255.255.254', '255.255.255.255'],
]

export const RESERVED_IPV6 = [
  '::',
  '::1',
  '::127.0.0.1',
  '::10.0.0.1',
  '64:ff9b:1::a00:1',
  '100::',
  '100::ffff',
  '100:0:0:1::1',
  '2001::',
  '2001:0:a00:1::',
  '2001:2::1',
  '2001:3::1',
  '2001:4:112::1',
  '2001:10::1',
  '2001:20::1',
  '2001:30::1',
  '2001:db8::',
  '2001:db8:ffff::1',
  '2620:4f:8000::1',
  '3fff::1',
  '3fff:fff::1',
  '5f00::1',
  '4000::1',
  '8000::1',
  'a000::1',
  'fc00::',
  'fd00:ec2::254',
  'fdff::1',
  'fe80::1',
  'febf::1',
  'fec0::1',
  'ff02::1',
]

const parseOctets = (v4: string) => v4.split('.').map(Number)
const toInteger = (v4: string) => parseOctets(v4).reduce((number, octet) => number * 256 + octet, 0)
const toHexOctets = (v4: string) => parseOctets(v4).map(octet => octet.toString(16).padStart(2, '0'))
const toIpv6Groups = (v4: string) =>
  toHexOctets(v4)
    .join('')
    .replace(/^(.{4})/, '$1:')

/** An IPv4 address within IPv6: mapped, translated, NAT64, 6to4. */
export const embedInIpv6 = (v4: string) => [
  `::ffff:${v4}`,
  `::ffff:${toIpv6Groups(v4)}`,
  `0:0:0:0:0:ffff:${toIpv6Groups(v4)}`,
  `64:ff9b::${v4}`,
  `64:ff9b::${toIpv6Groups(v4)}`,
  `2002:${toIpv6Groups(v4)}::1`,
]

/** The spellings of an IPv4 address as a host. */
export const spellIpv4 = (v4: string) => {
  const [a, b, c, d] = parseOctets(v4) as [number, number, number, number]
  const [ha, hb, hc, hd] = toHexOctets(v4)
  return [
    v4,
    `${v4}.`,
    String(toInteger(v4)),
    `0x${toHexOctets(v4).join('')}`,
    `0X${toHexOctets(v4).join('').toUpperCase()}`,
    `0${toInteger(v4).toString(8)}`,
    `0x${ha}.0x${hb}.0x${hc}.0x${hd}`,
    parseOctets(v4)
      .map(octet => `0${octet.toString(8)}`)
      .join('.'),
    parseOctets(v4)
      .map(octet => `000${octet.toString(8)}`)
      .join('.'),
    `${a}.${b * 65_536 + c * 256 + d}`,
    `${a}.${b}.${c * 256 + d}`,
    `0x${ha}.${b}.0${c.toString(8)}.${d}`,
    v4.replaceAll('.', '%2e'),
    v4.replaceAll('.', '。'),
    v4.replaceAll(/\d/g, digit => String.fromCodePoint(0xff10 + Number(digit))),
  ]
}

/** A URL may not contain these literally, but its name may resolve to them. */
export const PUBLIC_ADDRESSES = [
  '1.1.1.1',
  '8.8.8.8',
  '93.184.216.34',
  '172.32.0.1',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
]

export const REFUSED_HOSTNAMES = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  'router',
  'intranet',
  'kubernetes',
  'metadata',
  'x.local',
  'printer.local.',
  'vault.internal',
  'metadata.google.internal',
  'a.home.arpa',
  'home.arpa',
  'ipv4only.arpa',
  'a.test',
  'a.invalid',
  'abc.onion',
  'a.alt',
  'a.localdomain',
  'a.lan',
  'a.corp',
  'kubernetes.default.svc',
  'x.ＬＯＣＡＬ',
  'x.lo%63al',
  'ⓛocalhost',
  'l\u00adocalhost',
  'a..example.com',
  '.example.com',
  'example.com..',
  '-a.example.com',
  'a-.example.com',
  `${'a'.repeat(64)}.example.com`,
  `${'a.'.repeat(127)}example.com`,
  'exa$mple.com',
  "exa'mple.com",
  '*.example.com',
]
