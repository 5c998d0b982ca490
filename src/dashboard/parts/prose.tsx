// Sentences of the API: names in backticks are code, and lines stay lines.
import styles from './prose.module.css'

export const Prose = ({ text }: { text: string }) => (
  <span class={styles.prose}>
    {text.split('`').map((part, index, parts) =>
      // A backtick without a second one is text.
      index % 2 === 1 && index < parts.length - 1 ? <code key={index}>{part}</code> : (index % 2 ? '`' : '') + part,
    )}
  </span>
)
