"""Code that the adapters for LangChain and LlamaIndex share. No file here imports a framework.

records   convert records (text, metadata, id) to chunks and back
classes   base classes of retrievers and vector stores, and checks of their arguments
writing   replace the chunks of a source, choose positions, store messages without vectors
ranking   ranking stages for the texts of any retriever, and scores for the replies of retrievers and rerankers
tools     an agent's search tool
"""
