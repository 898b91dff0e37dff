"""What the adapters for LangChain and LlamaIndex share. No file imports a framework.

records      records (text, metadata, id) to chunks and back
mirror       a store that holds what its source holds
options      options of the adapters' classes
retrievers   retrievers and vector stores that open a store of their own
scores       scores of what a framework's retriever or reranker returns
stages       ranking stages for the texts of any retriever
tools        an agent's search tool
unembedded   messages that are stored while the embedder fails
"""
