/** Listeners by topic. */
export class Signal<Topic extends string> {
  private readonly listeners = new Map<Topic, Set<() => void>>();

  /** Calls `listener` on any of `topics`; gives the function that ends it. */
  on(topics: readonly Topic[], listener: () => void): () => void {
    for (const topic of topics) {
      let set = this.listeners.get(topic);
      if (!set) this.listeners.set(topic, (set = new Set()));
      set.add(listener);
    }
    return () => topics.forEach((topic) => this.listeners.get(topic)?.delete(listener));
  }

  emit(topic: Topic): void {
    for (const listener of [...(this.listeners.get(topic) ?? [])]) listener();
  }
}
