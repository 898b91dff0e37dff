"""Code that the adapters for LangChain and LlamaIndex share. No file here imports a framework.

records      records (text, metadata, id) to chunks and back
mirror       new chunks of a file or document replace its stored ones
options      options of the adapters' classes
positions    positions in a source that is added to
retrievers   retrievers and vector stores that open a store of their own
scores       scores for the results of a framework's retriever or reranker
stages       ranking stages for the texts of any retriever
tools        an agent's search tool
unembedded   messages that are stored while the embedder fails
"""
