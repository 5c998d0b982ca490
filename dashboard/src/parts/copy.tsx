// Copies text, and says so where it was asked for.
import { useEffect, useState } from 'preact/hooks'
import { Button } from './button.tsx'

const SHOWN_MS = 1600

type CopyProps = { text: () => string; children?: string; label?: string; look?: 'bare' | 'default' }
export function CopyButton({ text, children, label, look = 'bare' }: CopyProps) {
  const [copied, setCopied] = useState(0)
  useEffect(() => {
    const timer = setTimeout(() => setCopied(0), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [copied])
  const copy = () => navigator.clipboard.writeText(text()).then(() => setCopied(count => count + 1))
  return (
    <Button small look={look} icon="copy" aria-label={label} title={label} onClick={() => void copy()}>
      {copied ? 'Copied' : children}
    </Button>
  )
}
